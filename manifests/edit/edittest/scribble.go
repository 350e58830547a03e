// Package edittest makes YAML for fuzz tests.
package edittest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Scribble edits lines as a hasty person does; seed 0 leaves them alone. Random bytes alone are hardly ever YAML.
func Scribble(text string, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, seed))
	lines := strings.SplitAfter(text, "\n")
	for range seed % 7 {
		line, other := &lines[r.IntN(len(lines))], &lines[r.IntN(len(lines))]
		switch r.IntN(8) {
		case 0:
			*line = strings.TrimRight(*line, "\r\n") + fmt.Sprintf(" # right %d\n", r.IntN(100))
		case 1:
			*line = fmt.Sprintf("%*s# above %d\n", r.IntN(8), "", r.IntN(100)) + *line
		case 2:
			*line = "\n" + *line
		case 3:
			*line = ""
		case 4:
			*line += *other
		case 5:
			*line = "  " + *line
		case 6:
			*line = edit.Separator + "\n" + *line
		case 7:
			*line, *other = *other, *line
		}
	}
	return strings.Join(lines, "")
}
