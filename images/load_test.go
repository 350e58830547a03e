package images

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// opened is a file that stays open until the end of the test.
func opened(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// importer is a containerd that reads what it is to import.
type importer struct {
	machine.Runner

	got []byte
}

func (i *importer) Run(ctx context.Context, c machine.Command) (err error) {
	if c.In != nil {
		i.got, err = io.ReadAll(c.In)
	}
	if err != nil {
		return err
	}
	return i.Runner.Run(ctx, c)
}

// Whoever can write to the folder can give the archive's name to another file after the check. It is not imported.
func TestLoad_OtherFileOfThatName(t *testing.T) {
	ours := serve(t, nil) + "/ours:v1"
	path := save(t, Registries{}, []string{"amd64"}, ours)
	want := read(t, path)
	file := opened(t, path)
	if _, err := FileDigest(file); err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(save(t, Registries{}, []string{"arm64"}, ours), path); err != nil {
		t.Fatal(err)
	}
	imports := 0
	m, _ := machinetest.New(t)
	containerd := &importer{Runner: containerd(t, nil, &imports, map[string]string{ours: a.images[0].digest})}
	m.Runner = containerd
	if _, err := a.Load(t.Context(), m, "amd64"); err != nil {
		t.Fatal(err)
	}
	if imports != 1 || !bytes.Equal(containerd.got, want) {
		t.Errorf("%d imports, and %d bytes are imported that were not compared", imports, len(containerd.got))
	}
}
