package manager

import (
	"bytes"
	"testing"
)

func TestSeal(t *testing.T) {
	written := Seal([]byte("kind: Pod\n"))
	if !sealed(written) {
		t.Error("a manifest just written counts as edited")
	}
	for name, edited := range map[string][]byte{
		"a changed field":   bytes.Replace(written, []byte("Pod"), []byte("Job"), 1),
		"an added line":     append(bytes.Clone(written), "spec: {}\n"...),
		"no first line":     []byte("kind: Pod\n"),
		"nothing":           nil,
		"somebody's digest": append([]byte(sealPrefix+"00\n"), "kind: Pod\n"...),
	} {
		if sealed(edited) {
			t.Errorf("%s does not count as edited", name)
		}
	}
}
