package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var taken = time.Date(2026, 11, 22, 9, 0, 0, 7, time.UTC)

// read returns the content of an archive's files.
func read(t *testing.T, in io.Reader) (names []string, files map[string]string) {
	t.Helper()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg || header.Mode != 0o600 || !header.ModTime.Equal(taken.Truncate(time.Second)) {
			t.Errorf("%s: type %c, mode %o, time %s", header.Name, header.Typeflag, header.Mode, header.ModTime)
		}
		names = append(names, header.Name)
		files[header.Name] = string(data)
	}
}

// Whatever a pod is called, its file is below the archive's folder, and is the only one of its name.
func TestBundle_HostileNames(t *testing.T) {
	b := New(taken)
	hostile := []string{
		"../../etc/passwd", "/etc/passwd", "a/../../../b", "..", ".", "", "a//b", "a\x00b", "a\nb", "-rf", "c:\\windows", "x\x1b[2J", ".hidden",
		"cluster/logs/" + strings.Repeat("n", 400), "cluster/logs/" + strings.Repeat("n", 401), "a b", "a_b", "\u202e", "~root",
	}
	for _, name := range hostile {
		b.Text(name, "content\x1b[2J\r\nnext")
	}
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	names, files := read(t, &out)
	for _, name := range names {
		rest, below := strings.CutPrefix(name, root+"/")
		if !below || path.Clean(name) != name || unsafe.MatchString(strings.ReplaceAll(rest, "/", "")) || len(path.Base(name)) > longestName+9 {
			t.Errorf("the archive has a file %q", name)
		}
	}
	if len(files) != len(hostile)+2 {
		t.Errorf("%d names have become %d files: %q", len(hostile), len(files), names)
	}
	for name, text := range files {
		if strings.ContainsAny(text, "\x1b\r") {
			t.Errorf("%s has what a terminal acts on: %q", name, text)
		}
	}
}

func TestBundle_TheSameContentIsTheSameFile(t *testing.T) {
	var first, second bytes.Buffer
	for i, out := range []*bytes.Buffer{&first, &second} {
		b := New(taken)
		names := []string{"a", "b", "c"}
		for j := range names {
			b.Text(names[(i+j)%3], names[(i+j)%3])
			b.Missed(names[(i+j)%3], errors.New("no"))
		}
		if err := b.Write(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of the same files differ")
	}
}

func TestBundle_Bounds(t *testing.T) {
	b := New(taken)
	line := strings.Repeat("word ", 20) + "\n"
	for _, name := range []string{"long", "long"} {
		b.Text(name, strings.Repeat(line, mostBytes/len(line)+100)+"end\n")
	}
	for i := range 17 {
		b.add(string(rune('a'+i)), make([]byte, mostBytes-100))
	}
	if got := b.files[root+"/long"]; len(got) > mostBytes || len(got) < mostBytes-len(line) ||
		!bytes.HasPrefix(got, []byte(line)) || !bytes.HasSuffix(got, []byte("end\n")) {
		t.Errorf("got %d bytes, want whole lines of the last %d", len(got), mostBytes)
	}
	missed := strings.Join(b.NotSeen(), "\n")
	for _, want := range []string{"long: its beginning", "long: there is a file of this name already", "/q: it has 7 MiB, and the archive may have 128 MiB in all and has 127 MiB"} {
		if !strings.Contains(missed, want) {
			t.Errorf("%q is not said: %s", want, missed)
		}
	}
}

func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bundle.tar.gz")
	b := New(taken)
	b.Text("a", "text")
	if err := b.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("got mode %v, %v", info.Mode(), err)
	}
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b.Text("b", "more")
	if err := b.WriteFile(name); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second time: %v", err)
	}
	link := filepath.Join(filepath.Dir(name), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteFile(link); err == nil {
		t.Error("a link that leads nowhere was replaced")
	}
	after, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(name)); len(entries) != 2 {
		t.Errorf("something is left beside it: %v", entries)
	}
	if err := b.WriteFile(filepath.Join(name, "below")); err == nil || !strings.HasPrefix(err.Error(), "write the bundle: ") {
		t.Errorf("below a file: %v", err)
	}
}
