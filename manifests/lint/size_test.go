package lint_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/manifests/lint"
)

// twoMegabytes are ways in which files become large.
func twoMegabytes() map[string]string {
	const size = 2 << 20
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

// Two megabytes take two seconds on a machine that does nothing else. What counts here is the processor's time, not the
// clock's: other tests may run beside this one.
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
	const limit = 3 * time.Second
	for name, text := range twoMegabytes() {
		t.Run(name, func(t *testing.T) {
			start, before := time.Now(), used()
			file, err := lint.Parse("big.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&lint.Set{Files: []*lint.File{file}}).Check(); err != nil {
				t.Fatal(err)
			}
			took := used() - before
			t.Logf("%d bytes took %s of the processor, %s by the clock", len(text), took, time.Since(start))
			if took > limit {
				t.Errorf("want %s at most", limit)
			}
		})
	}
}
