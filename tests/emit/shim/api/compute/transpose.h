#include "../../device.hpp"
