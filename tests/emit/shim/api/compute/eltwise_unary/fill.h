#include "../../../device.hpp"
