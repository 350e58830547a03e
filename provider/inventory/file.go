package inventory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// calm is how long nothing must have happened to a file before it is read: one that
// is written in place would otherwise be met half done.
const calm = 100 * time.Millisecond

// dataDir is the link through which the kubelet replaces all files of a mounted
// ConfigMap or Secret at once.
const dataDir = "..data"

// File is a file. It is opened by name each time, so that a file that was put in
// its place by rename, or a mounted ConfigMap, is noticed.
type File struct {
	Path     string
	Interval time.Duration
}

// Run reads the file when it changes, and at every interval: not every file system
// tells, and the directory may not be there yet.
func (f File) Run(ctx context.Context, offer func([]byte, error)) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil { // no instance is left
		every(ctx, f.Interval, func() { offer(f.read()) })
		return
	}
	defer func() { _ = watcher.Close() }()
	for ctx.Err() == nil {
		_ = watcher.Add(filepath.Dir(f.Path)) // once more: a new directory may have the name
		offer(f.read())
		f.waitForChange(ctx, watcher)
	}
}

// waitForChange returns once a change is over, and after the interval.
func (f File) waitForChange(ctx context.Context, watcher *fsnotify.Watcher) {
	timeout := time.After(f.Interval)
	var over <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timeout:
			return
		case <-over:
			return
		case event := <-watcher.Events:
			if name := filepath.Base(event.Name); name == filepath.Base(f.Path) || name == dataDir {
				over = time.After(calm)
			}
		case <-watcher.Errors: // some changes were not told: read at once
			return
		}
	}
}

func (f File) read() ([]byte, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", f.Path, maxBytes)
	}
	return os.ReadFile(f.Path)
}
