package inventory

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// reading is what a source offered.
type reading struct {
	document string
	err      error
}

// run starts a source, and returns what it offers.
func run(t *testing.T, source Source) <-chan reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	readings, ended := make(chan reading), make(chan struct{})
	go func() {
		defer close(ended)
		source.Run(ctx, func(document []byte, err error) {
			select {
			case readings <- reading{string(document), err}:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { // and no goroutine is left
		cancel()
		<-ended
	})
	return readings
}

// until waits for a reading.
func until(t *testing.T, readings <-chan reading, what string, good func(reading) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case r := <-readings:
			if good(r) {
				return
			}
		case <-timeout:
			t.Fatalf("no reading that is %s", what)
		}
	}
}

func is(document string) func(reading) bool {
	return func(r reading) bool { return r.err == nil && r.document == document }
}

func fails(words string) func(reading) bool {
	return func(r reading) bool {
		return r.err != nil && strings.Contains(r.err.Error(), words) && !strings.Contains(r.err.Error(), "s3cret")
	}
}

// A change is noticed long before the interval is over, whichever way it is made.
func TestFile(t *testing.T) {
	replace := func(t *testing.T, path string, place func(temporary string) error) {
		t.Helper()
		if err := place(path + ".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		write func(t *testing.T, dir, content string)
	}{
		{"put in place by rename", func(t *testing.T, dir, content string) {
			replace(t, filepath.Join(dir, "machines.yaml"), func(name string) error {
				return os.WriteFile(name, []byte(content),
					0o600)
			})
		}},
		{"written in place", func(t *testing.T, dir, content string) {
			file, err := os.Create(filepath.Join(dir, "machines.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteString(content); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}},
		{"mounted as the kubelet does", func(t *testing.T, dir, content string) {
			version := filepath.Join(dir, "..version_"+content)
			if err := os.Mkdir(version, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(version, "machines.yaml"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			replace(t, filepath.Join(dir, "..data"), func(name string) error { return os.Symlink(version, name) })
			_ = os.Symlink("..data/machines.yaml", filepath.Join(dir, "machines.yaml")) // once
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			readings := run(t, File{Path: filepath.Join(dir, "machines.yaml"), Interval: time.Hour})
			until(t, readings, "an error", fails("no such file"))
			for _, content := range []string{"one", "two"} {
				tt.write(t, dir, content)
				until(t, readings, content, is(content))
			}
		})
	}
}

// Where nothing tells of changes, as in a directory that is not there yet, the file is polled.
func TestFile_Polls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "machines.yaml")
	readings := run(t, File{Path: path, Interval: time.Millisecond})
	until(t, readings, "an error", fails("no such file"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, readings, "one", is("one"))
}

func TestHTTPS(t *testing.T) {
	var status, notModified atomic.Int64
	status.Store(http.StatusOK)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case status.Load() == http.StatusFound:
			http.Redirect(w, r, "http://user:s3cret@127.0.0.1:1/?token=s3cret", http.StatusFound)
		case status.Load() != http.StatusOK:
			w.WriteHeader(int(status.Load()))
		case r.Header.Get("If-None-Match") == `"1"`:
			notModified.Add(1)
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"1"`)
			_, _ = w.Write([]byte("one"))
		}
	}))
	t.Cleanup(server.Close)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}

	readings := run(t, NewHTTPS(server.URL, caFile, time.Second, time.Millisecond))
	until(t, readings, "the document, again without being sent", func(r reading) bool {
		return is("one")(r) &&
			notModified.Load() > 1
	})
	secret := strings.Replace(server.URL, "https://", "https://user:s3cret@", 1) + "/machines?token=s3cret"
	secretly := run(t, NewHTTPS(secret, caFile, time.Second, time.Millisecond))
	status.Store(http.StatusInternalServerError)
	until(t, readings, "an error", fails("500"))
	until(t, secretly, "an error without the password", fails("/machines: the server returned 500 Internal Server Error"))
	status.Store(http.StatusFound)
	until(t, readings, "refused to go elsewhere", fails("want https"))
	until(t, secretly, "an error without the password", func(r reading) bool {
		return fails("redirect to http://127.0.0.1:1/: want https")(r) && !strings.Contains(r.err.Error(), "s3cret")
	})
	status.Store(http.StatusOK)
	until(t, readings, "the document", is("one"))

	until(t, run(t, NewHTTPS(server.URL, "", time.Second, time.Millisecond)), "an error", fails("certificate"))

	// A CA file that comes late, or is replaced, needs no restart.
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	late := filepath.Join(t.TempDir(), "ca.crt")
	readings = run(t, NewHTTPS(server.URL, late, time.Second, time.Millisecond))
	until(t, readings, "an error", fails("read CA"))
	if err := os.WriteFile(late, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, readings, "an error", fails("holds no certificate"))
	if err := os.WriteFile(late, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, readings, "the document", is("one"))
}
