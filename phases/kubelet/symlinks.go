package kubelet

import (
	"path/filepath"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// checkAstray finds directories that a step goes by and that lead a pod elsewhere than the machine itself.
func checkAstray(m *machine.Machine) error {
	astray, err := astrayOf(m,
		filepath.Dir(machine.KubeletConf), filepath.Dir(machine.KubeletConfig), machine.ConfigDir,
		filepath.Dir(filepath.Dir(machine.KubeletDropIn)), filepath.Dir(machine.KubeletDropIn))
	if err != nil || len(astray) == 0 {
		return err
	}
	return finding.Refusedf("change the kubelet's flags: absolute links here lead elsewhere in a pod: %s",
		strings.Join(astray, ", ")).
		WithHint("do it over SSH, with --via ssh, or here, with `ccmadm node external` or `plain`; nothing was changed")
}

// astrayOf are those of these directories that lead this process elsewhere than the machine itself.
func astrayOf(m *machine.Machine, dirs ...string) ([]string, error) {
	var list []string
	for _, dir := range dirs {
		astray, err := m.Astray(dir)
		if err != nil {
			return nil, err
		}
		if astray {
			list = append(list, dir)
		}
	}
	return list, nil
}
