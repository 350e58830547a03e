package redact

import "strings"

// Further is how many lines more than are shown have to be read from the end of a log: the name of a credential may
// stand on a line before those that are shown, and its value on one of them.
const Further = 100

// Tail returns the last lines of a log without credentials, at most as many as are asked for.
func Tail(log string, lines int) string {
	log = Text(log)
	end := len(strings.TrimSuffix(log, "\n"))
	for range lines {
		newline := strings.LastIndexByte(log[:end], '\n')
		if newline < 0 {
			return log
		}
		end = newline
	}
	return log[end+1:]
}
