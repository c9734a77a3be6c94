import os
from typing import Any, Mapping, Optional, Union

from . import Plan, Program, Target, _Arrays, _Path, _Progress

def load(path: _Path, **params: Any) -> "Model": ...

class Model:
    program: Program
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    def plan(
        self, target: Union[_Path, Target] = "host", progress: _Progress = None, **options: Any
    ) -> Plan: ...
    def run(
        self, arrays: _Arrays = None, /, *, progress: _Progress = None, **named: Any
    ) -> dict[str, Any]: ...
