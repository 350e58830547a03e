package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
)

// podLogs is where the kubelet keeps logs of containers, as NAMESPACE_NAME_UID/CONTAINER/RUN.log.
const podLogs = "/var/log/pods"

const (
	// logBytes is how much is read of the end of a log.
	logBytes = 128 << 10
	// logAge is how old a log may be that says why no API server answers now: a container that fails is started again each five minutes.
	logAge = 15 * time.Minute
	// mostLogs is how many are read of a pod: its last run, and the run before.
	mostLogs = 2
)

// containerLog is the file of a container's log.
type containerLog struct {
	path    string // below podLogs
	written time.Time
}

// quoteLogs has static pods say why no API server answers: their logs are files of this machine, while the API server shows none.
// Components that are only its clients say that it does not answer. Where this machine's own API server is ready, and the kubelet asks
// another address, these logs are about other matters. Until its probe stops it, one without etcd listens, too, and is not ready.
func (h *looking) quoteLogs(ctx context.Context) error {
	if h.seen.Server == nil {
		return nil
	}
	if h.seen.Server.Own = h.ownServer(ctx); h.seen.Server.Own > 0 {
		return nil
	}
	root, err := h.openLogs()
	if root == nil || err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	var errs []error
	for i := range h.seen.Manifests {
		m := &h.seen.Manifests[i]
		_, name, _ := strings.Cut(m.Pod, "/")
		if m.Pod == "" || slices.Contains([]string{components.ControllerManager, components.Scheduler, v1alpha1.Component}, name) {
			continue
		}
		for _, log := range h.logsOf(root, m.Pod) {
			if h.Now().Sub(log.written) > logAge {
				continue
			}
			text, err := readLog(root, log.path)
			errs = append(errs, err)
			var lines []string
			for line := range strings.Lines(text) {
				lines = append(lines, message(line))
			}
			if m.Says = components.LastError(lines); m.Says != "" {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// openLogs opens the directory, out of which no link in it leads. It is nil where there is none.
func (h *looking) openLogs() (*os.Root, error) {
	root, err := os.OpenRoot(h.Path(podLogs))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the logs of pods: %w", err)
	}
	return root, nil
}

// logsOf are the logs of a static pod that have something in them, the newest first.
func (h *looking) logsOf(root *os.Root, pod string) []containerLog {
	files := root.FS()
	list := func(dir string) []fs.DirEntry {
		entries, _ := fs.ReadDir(files, dir) // a pod that has just gone has no log
		return entries
	}
	var logs []containerLog
	for _, dir := range list(".") {
		if !dir.IsDir() || !strings.HasPrefix(dir.Name(), strings.Replace(pod, "/", "_", 1)+"-"+h.seen.Node+"_") {
			continue
		}
		for _, container := range list(dir.Name()) {
			for _, file := range list(path.Join(dir.Name(), container.Name())) {
				run, is := strings.CutSuffix(file.Name(), ".log")
				info, err := file.Info()
				if _, number := strconv.Atoi(run); !is || number != nil || err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
					continue
				}
				logs = append(logs, containerLog{path.Join(dir.Name(), container.Name(), file.Name()), info.ModTime()})
			}
		}
	}
	slices.SortStableFunc(logs, func(a, b containerLog) int {
		return cmp.Or(b.written.Compare(a.written), len(b.path)-len(a.path), strings.Compare(b.path, a.path))
	})
	return logs[:min(len(logs), mostLogs)]
}

// readLog is the end of a log without credentials. The name of one may stand before what is read.
func readLog(root *os.Root, name string) (string, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // what has become a pipe since does not hold this process
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	begin := max(0, info.Size()-logBytes)
	data, err := io.ReadAll(io.NewSectionReader(file, begin, logBytes))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path.Join(podLogs, name), err)
	}
	if begin == 0 {
		return redact.Text(string(data)), nil
	}
	lines := strings.Count(string(data), "\n") - redact.Further
	if lines <= 0 {
		return "", nil
	}
	return redact.Tail(string(data), lines), nil
}

// message is a line of a log without what the container runtime has put before it: time, stream, and whether the line is whole.
func message(line string) string {
	line = strings.TrimSpace(line)
	if parts := strings.SplitN(line+" ", " ", 4); len(parts) == 4 && (parts[1] == "stderr" || parts[1] == "stdout") {
		return strings.TrimSpace(parts[3])
	}
	return line
}
