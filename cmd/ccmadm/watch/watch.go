// Package watch repeats what a command shows until Ctrl-C: over itself on a terminal, in blocks with their time elsewhere.
//
// Start at [Repeat]; [Wait] is for a command that shows only what has changed.
//
// Reads: the size of the terminal. Writes: to the io.Writer that it is given.
// Running it twice: two watches do not know of each other.
// It will not: end because of what it shows.
package watch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Repeat shows what look writes, waits for interval, and looks again, until ctx ends. An error of look is shown below its text; the
// last one is returned, so that the exit status is that of the last look. A look that ctx has cut short is left out.
func Repeat(ctx context.Context, out io.Writer, interval time.Duration, look func(context.Context, io.Writer) error) error {
	paint := painter(out)
	for last := error(nil); ; {
		var text bytes.Buffer
		err := look(ctx, &text)
		if ctx.Err() != nil {
			return last
		}
		last = err
		for line := range strings.SplitSeq(message(err), "\n") {
			if line != "" {
				fmt.Fprintf(&text, "%s\n", finding.Clean(line))
			}
		}
		if err := paint(time.Now(), text.String()); err != nil {
			return fmt.Errorf("show the status: %w", err)
		}
		if !Wait(ctx, interval) {
			return last
		}
	}
}

// Wait waits between two looks. It reports whether there is another one: ctx has not ended.
func Wait(ctx context.Context, interval time.Duration) bool {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// painter paints over a terminal, or writes blocks.
func painter(out io.Writer) func(time.Time, string) error {
	file, is := out.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return func(at time.Time, text string) error {
			_, err := fmt.Fprintf(out, "%s\n%s\n", at.Format(time.DateTime), text)
			return err
		}
	}
	return func(at time.Time, text string) error {
		_, height, err := term.GetSize(int(file.Fd()))
		if err != nil || height <= 0 {
			height = 24 // some terminals do not tell
		}
		_, err = io.WriteString(out, screen(at, text, height))
		return err
	}
}

// screen is what paints a text over the whole terminal. Wrapping is off meanwhile: a line that takes two would push the first ones
// away. What does not fit is counted.
func screen(at time.Time, text string, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if most := max(1, height-2); len(lines) > most { // the time above, and the cursor below
		more := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("and %d more lines", more))
	}
	var b strings.Builder
	b.WriteString("\x1b[?7l\x1b[H")
	for _, line := range append([]string{at.Format(time.DateTime) + "  Ctrl-C ends"}, lines...) {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?7h")
	return b.String()
}
