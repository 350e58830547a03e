package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// FlagUse is one occurrence of a kubelet flag in one of the places that feed its command line.
type FlagUse struct {
	File  string
	Line  int
	Flag  string
	Value string
}

// String is how an administrator finds it.
func (u FlagUse) String() string {
	return fmt.Sprintf("%s:%d: --%s=%s", u.File, u.Line, u.Flag, u.Value)
}

// KubeletFlagFiles are the files behind the kubelet's command line, weakest first: the unit's own drop-ins, then
// kubeadm's file, then the administrator's, whose flags come last and so win. Debian's package reads
// /etc/default/kubelet and the RPM /etc/sysconfig/kubelet.
func (m *Machine) KubeletFlagFiles() []string {
	var files []string
	for _, dir := range []string{"usr/lib", "lib", "usr/local/lib", "run", "etc"} {
		unit := m.Path(filepath.Join(dir, "systemd/system/kubelet.service"))
		dropIns, _ := filepath.Glob(unit + ".d/*.conf") // the pattern is well-formed, the only error there is
		files = append(append(files, unit), dropIns...)
	}
	return append(files, m.Path(KubeadmFlags), m.Path("/etc/default/kubelet"), m.Path("/etc/sysconfig/kubelet"))
}

// flagPattern has the value behind a = or a blank: a switch has none, and what follows it is a flag of its own.
var flagPattern = regexp.MustCompile(`(?:^|[\s"'=])--([a-z][a-z0-9-]*)(?:=["']?([^\s"']*)| ["']?([^-\s"'][^\s"']*))?`)

// KubeletFlags lists where the named flags stand in the files that feed the kubelet's command line. Comments do not
// count, nor do our own files: those say what an earlier run chose.
func (m *Machine) KubeletFlags(names ...string) ([]FlagUse, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	var uses []FlagUse
	seen := map[string]bool{} // /lib is a link to /usr/lib on merged systems
	for _, file := range m.KubeletFlagFiles() {
		real, err := filepath.EvalSymlinks(file)
		if errors.Is(err, fs.ErrNotExist) || seen[real] || filepath.Base(file) == filepath.Base(KubeletDropIn) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for kubelet flags: %w", err)
		}
		seen[real] = true
		data, err := os.ReadFile(real)
		if err != nil {
			return nil, fmt.Errorf("look for kubelet flags: %w", err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			if text := strings.TrimSpace(line); strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";") {
				continue
			}
			for _, match := range flagPattern.FindAllStringSubmatch(line, -1) {
				if wanted[match[1]] {
					uses = append(uses, FlagUse{File: file, Line: i + 1, Flag: match[1], Value: match[2] + match[3]})
				}
			}
		}
	}
	return uses, nil
}
