#include "../host.hpp"
