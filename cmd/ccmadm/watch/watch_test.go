package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// Without a terminal each look is a block with its time; the error is that of the last look that came to its end.
func TestRepeat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	looks, bad := 0, errors.New("status: w1 Claimed\x1b[31m")
	err := Repeat(ctx, &out, time.Millisecond, func(_ context.Context, out io.Writer) error {
		switch looks++; looks {
		case 2:
			fmt.Fprintln(out, "second")
			return bad
		case 3:
			cancel()
			fmt.Fprintln(out, "cut short")
			return context.Canceled
		}
		fmt.Fprintln(out, "first")
		return nil
	})
	text := out.String()
	if !errors.Is(err, bad) || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	if strings.Contains(text, "cut short") || strings.Contains(text, "\x1b") || !strings.Contains(text, "second\nstatus: w1 Claimed\n") ||
		strings.Count(text, time.Now().Format("2006-")) != 2 {
		t.Errorf("it wrote %q", text)
	}
}

// Ctrl-C between two looks ends it at once, with the result of the last.
func TestRepeat_EndsWhileItWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := Repeat(ctx, io.Discard, time.Hour, func(context.Context, io.Writer) error { return nil })
	if err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// What does not fit on the screen is counted, and what was there before is erased.
func TestScreen(t *testing.T) {
	got := screen(time.Now(), "a\nb\nc\nd\n", 5)
	if strings.Count(got, "\n") != 4 || !strings.Contains(got, "a\x1b[K\nb\x1b[K\nand 2 more lines\x1b[K\n\x1b[J") {
		t.Errorf("got %q", got)
	}
	if got := screen(time.Now(), "a\nb\nc\n", 5); strings.Contains(got, "more") {
		t.Errorf("got %q", got)
	}
}
