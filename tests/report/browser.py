"""Drives Debian's chromium through its debugging pipe, with Python's own
library alone: opens pages from disk, evaluates scripts in them, moves the
pointer and takes screenshots."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """Returns the path of a chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """A headless browser with one page. Its methods raise an exception if the
    browser reports an error or does not answer."""

    def __init__(self, width=1440, height=1000):
        self.folder = tempfile.mkdtemp(prefix="divvy-browser-")
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()

        def pipes():  # the browser reads descriptor 3 and writes descriptor 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--allow-file-access-from-files",
             "--disable-background-networking", f"--user-data-dir={self.folder}",
             f"--window-size={width},{height}", "about:blank"],
            close_fds=False, preexec_fn=pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.session, self.errors = b"", 0, None, []
        pages = [t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.size = width, height

    def close(self):
        os.close(self.to)  # the browser ends when its pipe does
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.of)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _receive(self, limit_s):
        end = time.monotonic() + limit_s
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.of], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.of, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.errors.append(d.get("exception", {}).get("description") or d["text"])
        elif method == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.errors.append(p["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and p["type"] == "error":
            self.errors.append(str(p["args"]))
        elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:", "about:")):
            self.errors.append("the page asks the network for " + p["request"]["url"])
        return message

    def send(self, method, limit_s=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            got = self._receive(limit_s)
            if got.get("id") == self.number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]

    def open(self, path, anchor=""):
        """Opens a file and waits until its script has run; returns the seconds."""
        start = time.monotonic()
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url="file://" + os.path.abspath(path) + anchor)
        while not self.eval("document.readyState === 'complete' && location.protocol === 'file:'"):
            if time.monotonic() - start > 60:
                raise TimeoutError(f"{path} does not open")
            time.sleep(0.02)
        self.settle()
        return time.monotonic() - start

    def eval(self, script):
        r = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            d = r["exceptionDetails"]
            raise RuntimeError(d.get("exception", {}).get("description") or d["text"])
        return r["result"].get("value")

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.eval("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y):
        self.hover(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, start, end):
        self.hover(*start)
        self.mouse("mousePressed", *start, button="left", clickCount=1)
        for part in (0.25, 0.5, 1):
            self.mouse("mouseMoved", *(a + (b - a) * part for a, b in zip(start, end)), button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)
        self.settle()

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)
        self.settle()

    def media(self, scheme="light", media=""):
        self.send("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def screenshot(self, path, whole=False, clip=None):
        more = {"captureBeyondViewport": True} if whole or clip else {}
        if whole:
            size = self.eval("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
            clip = (0, 0, size[0], size[1])
        if clip:
            more["clip"] = dict(zip(("x", "y", "width", "height"), clip), scale=1)
        png = self.send("Page.captureScreenshot", format="png", **more)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(png))
