package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
)

// File is a file of a machine that helps to find a fault in it.
type File struct {
	// Name is its path, or for what a program says, a name without a slash.
	Name string
	Data []byte
	// Form says how credentials in it are found.
	Form Form
	// Err is why there are no data.
	Err error
}

// Form is how a file is to be read.
type Form int

// The forms.
const (
	// Lines are free text: logs, files of flags.
	Lines Form = iota
	// YAML are Kubernetes objects and configurations.
	YAML
	// Secretive files may have a credential in every value.
	Secretive
)

// journalLines is how much of the kubelet's log is taken.
const journalLines = 1000

const journalFile = "kubelet-journal.txt"

// Support reads the configuration that a machine's kubelet and static pods run with, their logs, the kubelet's command line, and
// the end of its log. Keys and kubeconfigs are no part of it. It writes nothing.
func Support(ctx context.Context, m *machine.Machine) []File {
	var list []File
	for _, path := range m.KubeletFlagFiles() {
		path, _ = strings.CutPrefix(path, strings.TrimSuffix(m.Root, "/"))
		list = appendFile(list, m, path, Lines)
	}
	list = appendFile(list, m, machine.KubeletEnvFile, Lines)
	list = appendFile(list, m, "/etc/resolv.conf", Lines)
	list = appendFile(list, m, "/etc/containerd/config.toml", Lines)
	for _, path := range []string{machine.KubeletConfig, machine.KubeadmConfig, machine.RecordFile, machine.StateFile} {
		list = appendFile(list, m, path, YAML)
	}
	list = appendFiles(list, m, machine.ManifestDir, YAML)
	list = appendFiles(list, m, machine.CloudConfigDir, Secretive)
	list = append(list, supportLogs(ctx, m)...)
	return append(list, supportOutput(ctx, m)...)
}

// supportLogs are those of static pods, which are missing among the cluster's where no API server answers.
func supportLogs(ctx context.Context, m *machine.Machine) []File {
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	unseen := errors.Join(h.config(), h.manifests())
	h.names()
	_ = h.flags(ctx) // where they cannot be read, the Node has the machine's name
	root, err := h.openLogs()
	if unseen = errors.Join(unseen, err); unseen != nil {
		return []File{{Name: podLogs, Err: unseen}}
	}
	if root == nil {
		return nil
	}
	defer root.Close() //nolint:errcheck // nothing was written
	var list []File
	for _, pod := range h.seen.Manifests {
		for _, log := range h.logsOf(root, pod.Pod) {
			text, err := readLog(root, log.path)
			list = append(list, File{Name: filepath.Join(podLogs, log.path), Data: []byte(text), Err: err})
		}
	}
	return list
}

// supportOutput is what programs say.
func supportOutput(ctx context.Context, m *machine.Machine) []File {
	var list []File
	process := File{Name: "kubelet-command-line.txt"}
	running, err := m.RunningKubelet(ctx)
	switch {
	case err != nil:
		process.Err = err
	case running == nil:
		process.Err = errors.New("the kubelet does not run")
	default:
		process.Data = []byte(strings.Join(running.Args, " ") + "\n")
	}
	list = append(list, process)
	for name, args := range map[string][]string{
		journalFile:           {"journalctl", "-u", "kubelet", "-n", strconv.Itoa(journalLines + redact.Further), "--no-pager", "-o", "short-iso"},
		"kubelet-unit.txt":    {"systemctl", "show", "kubelet", "--no-pager"},
		"kubelet-version.txt": {"kubelet", "--version"},
	} {
		out, err := m.Output(ctx, args[0], args[1:]...)
		if name == journalFile {
			out = []byte(redact.Tail(string(out), journalLines))
		}
		list = append(list, File{Name: name, Data: out, Err: err})
	}
	return list
}

func appendFile(list []File, m *machine.Machine, path string, form Form) []File {
	for _, f := range list {
		if f.Name == path {
			return list
		}
	}
	data, err := m.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return list
	}
	return append(list, File{Name: path, Data: data, Form: form, Err: err})
}

// appendFiles takes the files of a directory, not those of directories in it.
func appendFiles(list []File, m *machine.Machine, dir string, form Form) []File {
	paths, _ := filepath.Glob(filepath.Join(m.Path(dir), "*")) // the pattern is well-formed, the only error there is
	for _, path := range paths {
		name := filepath.Join(dir, filepath.Base(path))
		f := File{Name: name, Form: form}
		if f.Data, f.Err = m.Read(name); f.Err != nil {
			f.Err = fmt.Errorf("read %s: %w", name, f.Err)
		}
		list = append(list, f)
	}
	return list
}
