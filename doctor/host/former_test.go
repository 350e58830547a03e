package host

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestLook_Former: a component that was started before its certificate was renewed uses the former one; a kubeconfig that was written for
// another reason is none that was renewed.
func TestLook_Former(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, tt := range map[string]struct {
		renewed, started time.Duration // ago
		lasts            time.Duration // since it was renewed
		cgroup, file     string
		want             string
	}{
		"started before":                   {renewed: time.Hour, started: 2 * time.Hour, lasts: year, want: "K22"},
		"started before, another period":   {renewed: time.Hour, started: 2 * time.Hour, lasts: year / 5, want: "K22"},
		"some seconds to make it":          {renewed: time.Hour, started: 2 * time.Hour, lasts: year - 40*time.Second, want: "K22"},
		"started afterwards":               {renewed: 2 * time.Hour, started: time.Hour, lasts: year},
		"when kubeadm init made both":      {renewed: time.Hour, started: time.Hour + time.Minute, lasts: year},
		"has just been renewed":            {renewed: time.Minute, started: 2 * time.Hour, lasts: year},
		"the file was edited":              {renewed: time.Hour, started: 2 * time.Hour, lasts: year / 7},
		"no static pod":                    {renewed: time.Hour, started: 2 * time.Hour, lasts: year, cgroup: "system.slice/scheduler.service"},
		"the process has another file":     {renewed: time.Hour, started: 2 * time.Hour, lasts: year, file: "/etc/scheduler.conf"},
		"the clock was set since it began": {renewed: time.Hour, started: time.Hour + 4*time.Minute, lasts: year},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := newHost(t, 0)
			const pid, up = 900, 100_000
			machinetest.Put(t, m, machine.SchedulerConf, kubeconfigOf("https://x", certificate(t, tt.lasts-tt.renewed), []byte("x")))
			written := time.Now().Add(-tt.renewed)
			must(t, os.Chtimes(m.Path(machine.SchedulerConf), written, written))
			file, cgroup := machine.SchedulerConf, "kubepods/burstable/pod2/x"
			if tt.file != "" {
				file = tt.file
			}
			if tt.cgroup != "" {
				cgroup = tt.cgroup
			}
			process(t, m, pid, cgroup, "/usr/local/bin/kube-scheduler", "--kubeconfig="+file)
			socket(t, m, pid, 9003)
			tcp, err := m.Read("/proc/net/tcp")
			must(t, err)
			machinetest.Put(t, m, "/proc/net/tcp", string(tcp)+listens(10259, 9003))
			machinetest.Put(t, m, "/proc/uptime", fmt.Sprintf("%d.00 900.00\n", up))
			ticks := (up - int(tt.started.Seconds())) * 100
			stat := fmt.Sprintf("%d (kube (x) s) S %s%d 0 0\n", pid, strings.Repeat("0 ", 18), ticks)
			machinetest.Put(t, m, fmt.Sprintf("/proc/%d/stat", pid), stat)
			if ids, text := hostWords(diagnoseHost(t, m)); ids != tt.want {
				t.Errorf("got %s, want %s\n%s", ids, tt.want, text)
			}
		})
	}
}

// A kubeconfig that was renewed is read by a component that is started again only, and the remedy says so.
func TestLook_RenewedKubeconfig(t *testing.T) {
	m, _ := newHost(t, 0)
	hostCertificate(t, m, -time.Hour)
	conf, err := m.Read(machine.CCMKubeconfig)
	must(t, err)
	must(t, os.Remove(m.Path(machine.CCMKubeconfig)))
	machinetest.Put(t, m, machine.ControllerManagerConf, string(conf))
	d := diagnoseHost(t, m)
	const next = "kubeadm certs renew controller-manager.conf, then have the kubelet start its static pod again"
	if len(d.Causes) != 1 || d.Causes[0].Next != next {
		t.Errorf("got %+v", d.Causes)
	}
}
