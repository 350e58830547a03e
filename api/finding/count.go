package finding

import (
	"strconv"
	"strings"
)

// Count is a number and what it counts, given in the singular: 1 warning, 2 warnings, 0 addresses.
func Count(n int, singular string) string {
	if n == 1 {
		return "1 " + singular
	}
	ending := "s"
	if strings.HasSuffix(singular, "s") {
		ending = "es"
	}
	return strconv.Itoa(n) + " " + singular + ending
}
