package lint_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/manifests/lint"
)

// large are ways in which files become large, of a number of bytes.
func large(size int) map[string]string {
	repeat := func(text string) string { return strings.Repeat(text, size/len(text)+1) }
	var list strings.Builder
	list.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := 0; list.Len() < size; i++ {
		fmt.Fprintf(
			&list,
			"- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c%d, namespace: x}\n  data: {key: value}\n",
			i,
		)
	}
	one := strings.SplitN(good, "---\n", 2)[0]
	return map[string]string{
		"one document": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n" + repeat(
			"  # a comment\n",
		) + "  key: value\n",
		"a long text": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  key: |\n" + repeat(
			"    a line of text\n",
		),
		"many documents":    repeat("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {key: value}\n---\n"),
		"many managers":     repeat(one + "---\n"),
		"many permissions":  repeat(good + "---\n"),
		"a list of objects": list.String(),
	}
}

// Eight times as much takes about eight times as long: two megabytes two seconds on a machine that does nothing else, where
// it was seventy-five. What counts is the processor's time, since other tests run beside this one, and the growth, since
// the race detector makes everything ten times slower. A quadratic step would make it sixty-four.
func TestCheck_TwoMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 seconds")
	}
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	check := func(text string) time.Duration {
		before := used()
		file, err := lint.Parse("big.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&lint.Set{Files: []*lint.File{file}}).Check(); err != nil {
			t.Fatal(err)
		}
		return used() - before
	}
	const size = 2 << 20
	small := large(size / 8)
	for name, text := range large(size) {
		t.Run(name, func(t *testing.T) {
			few, all := check(small[name]), check(text)
			t.Logf("%d bytes took %s of the processor, an eighth of them %s", len(text), all, few)
			if floor := 100 * time.Millisecond; all > 24*max(few, floor) {
				t.Errorf("it grows faster than the file: %.0f times as long", all.Seconds()/few.Seconds())
			}
		})
	}
}
