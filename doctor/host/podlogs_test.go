package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// refusedServer is a control plane with static pods, whose API server refuses connections.
func refusedServer(t *testing.T) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	m, runner := newHost(t, 0)
	kubeletOf(t, m, "https://127.0.0.1:1")
	m.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
		machinetest.Put(t, m, machine.ManifestDir+"/"+name+".yaml", managerPod(name, ""))
	}
	return m, runner
}

// of is the message of one finding.
func of(t *testing.T, m *machine.Machine, id finding.ID) string {
	t.Helper()
	for _, c := range diagnoseHost(t, m).Causes {
		if c.ID == id {
			return c.Message
		}
	}
	t.Errorf("there is no finding %s", id)
	return ""
}

// TestLook_StaticLogs: where no API server answers, the files of its log and etcd's say why; files that are none are not read.
func TestLook_StaticLogs(t *testing.T) {
	const (
		server = podLogs + "/kube-system_kube-apiserver-cp1_0a1b/kube-apiserver/"
		lines  = "2026-11-30T06:00:00.1Z stderr F I1130 06:00:00.1 1 server.go:1] starting\n2026-11-30T06:00:01.1Z stderr F "
		fault  = "Error: unknown flag: --cloud-provider"
		quoted = "; kube-apiserver logs: " + fault
	)
	put := func(path, text string) func(*testing.T, *machine.Machine) {
		return func(t *testing.T, m *machine.Machine) { machinetest.Put(t, m, path, text) }
	}
	for name, tt := range map[string]struct {
		do   []func(*testing.T, *machine.Machine)
		want string
	}{
		"no log":             {},
		"a removed flag":     {do: []func(*testing.T, *machine.Machine){put(server+"3.log", lines+fault+"\n")}, want: quoted},
		"just started again": {do: []func(*testing.T, *machine.Machine){put(server+"9.log", lines+fault), put(server+"10.log", "")}, want: quoted},
		"no error since it was started again": {
			do: []func(*testing.T, *machine.Machine){put(server+"9.log", lines+fault+"\n"), put(server+"10.log", lines)}, want: quoted,
		},
		"both": {do: []func(*testing.T, *machine.Machine){
			put(server+"3.log", lines+fault+"\n"),
			put(podLogs+"/kube-system_etcd-cp1_2c3d/etcd/7.log", "x stderr F {\"level\":\"fatal\",\"msg\":\"member 1 has already been bootstrapped\"}\n"),
		}, want: "; etcd logs: {\"level\":\"fatal\",\"msg\":\"member 1 has already been bootstrapped\"}" + quoted},
		"a credential": {
			do:   []func(*testing.T, *machine.Machine){put(server+"3.log", lines+fault+" password=hunter2\n")},
			want: quoted + " password=",
		},
		"a long log": {do: []func(*testing.T, *machine.Machine){
			put(server+"3.log", strings.Repeat("2026-11-30T06:00:00.1Z stderr F I1130 starting\n", 50_000)+lines+fault+"\n"),
		}, want: quoted},
		"an hour old": {do: []func(*testing.T, *machine.Machine){put(server+"3.log", lines+fault+"\n"), func(t *testing.T, m *machine.Machine) {
			before := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(m.Path(server+"3.log"), before, before))
		}}},
		"another pod": {do: []func(*testing.T, *machine.Machine){
			put(podLogs+"/kube-system_kube-apiserver-cp1-debug_1/kube-apiserver/3.log", lines+fault), put(podLogs+"/shop_kube-apiserver-cp1_1/x/3.log", lines+fault),
		}},
		"a client of the API server": {do: []func(*testing.T, *machine.Machine){put(podLogs+"/kube-system_kube-scheduler-cp1_1/x/3.log", lines+fault)}},
		"a link out of the directory": {do: []func(*testing.T, *machine.Machine){put("/root/secret", lines+fault), func(t *testing.T, m *machine.Machine) {
			link := m.Path(server + "3.log")
			must(t, errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(m.Path("/root/secret"), link)))
		}}},
		"a directory that is a link": {do: []func(*testing.T, *machine.Machine){put("/root/x/kube-apiserver/3.log", lines+fault), func(t *testing.T, m *machine.Machine) {
			link := m.Path(strings.TrimSuffix(server, "/kube-apiserver/"))
			must(t, errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(m.Path("/root/x"), link)))
		}}},
		"a pipe": {do: []func(*testing.T, *machine.Machine){func(t *testing.T, m *machine.Machine) {
			must(t, errors.Join(os.MkdirAll(m.Path(server), 0o755), syscall.Mkfifo(m.Path(server+"3.log"), 0o600)))
		}}},
		"no number": {do: []func(*testing.T, *machine.Machine){put(server+"3.log.20261130-060000", lines+fault), put(server+"x.log", lines+fault)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := refusedServer(t)
			for _, do := range tt.do {
				do(t, m)
			}
			got := of(t, m, finding.ServerUnreached)
			if !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, "logs: ") || strings.Contains(got, "hunter2") {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}

// Where this machine's own API server is ready, and the kubelet asks a load balancer that does not answer, its log is about other matters. One
// that has lost etcd listens, too.
func TestLook_StaticLogsOfTheOwnServer(t *testing.T) {
	const log = podLogs + "/kube-system_kube-apiserver-cp1_0a1b/kube-apiserver/3.log"
	for name, tt := range map[string]struct {
		asks, tcp string
		bind      string
		late      int64 // so many questions have no answer
		readyz    int   // 0: it does not answer
		own       bool
	}{
		"a load balancer": {asks: "203.0.113.9", tcp: listens(6443, 9002), readyz: http.StatusOK, own: true},
		"a load balancer, and nobody may ask without credentials": {
			asks: "203.0.113.9", tcp: listens(6443, 9002), readyz: http.StatusUnauthorized, own: true,
		},
		"a load balancer, and it listens at one address": {
			asks: "203.0.113.9", tcp: listens(6443, 9002), bind: "192.0.2.9", readyz: http.StatusOK, own: true,
		},
		"a load balancer, and it listens everywhere, as it says": {
			asks: "203.0.113.9", tcp: listens(6443, 9002), bind: "0.0.0.0", readyz: http.StatusOK, own: true,
		},
		"a load balancer, and etcd of one that listens at one address is gone": {
			asks: "203.0.113.9", tcp: listens(6443, 9002), bind: "192.0.2.9", readyz: http.StatusInternalServerError,
		},
		"a load balancer, and it is busy":         {asks: "203.0.113.9", tcp: listens(6443, 9002), late: 1, readyz: http.StatusOK, own: true},
		"a load balancer, and etcd is gone":       {asks: "203.0.113.9", tcp: listens(6443, 9002), readyz: http.StatusInternalServerError},
		"a load balancer, and it is mute":         {asks: "203.0.113.9", tcp: listens(6443, 9002)},
		"a name":                                  {asks: "api.example.com", tcp: listens(6443, 9002), readyz: http.StatusInternalServerError},
		"a load balancer, and nothing listens":    {asks: "203.0.113.9", tcp: listens(10257, 9002), readyz: http.StatusOK},
		"this machine, which accepts and is mute": {asks: machinetest.Address, tcp: listens(6443, 9002), readyz: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := refusedServer(t)
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s", r.URL)
				}
				w.WriteHeader(tt.readyz)
			}))
			t.Cleanup(server.Close)
			at, asked := "127.0.0.1", atomic.Int64{}
			if tt.bind != "" && tt.bind != "0.0.0.0" {
				at = tt.bind
			}
			m.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != at+":6443" || tt.readyz == 0 || asked.Add(1) <= tt.late {
					return nil, syscall.ECONNREFUSED
				}
				return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
			}
			port := "6443"
			if tt.bind != "" {
				port += ", --bind-address=" + tt.bind
			}
			machinetest.Put(t, m, machine.APIServerPod, strings.Replace(managerPod("kube-apiserver", ""), "10258", port, 1))
			machinetest.Put(t, m, "/proc/net/tcp", "  sl  local_address\n"+tt.tcp)
			machinetest.Put(t, m, log, "x stderr F E1130 06:00:00.1 1 x.go:1] etcdserver: request timed out\n")
			h := &looking{Machine: m, seen: &diagnosis.Host{
				Name: "cp1", Node: "cp1", Addresses: []string{machinetest.Address},
				Server: &diagnosis.HostServer{Address: tt.asks + ":6443", Kind: diagnosis.Refused, Error: "connection refused"},
			}}
			must(t, errors.Join(h.ports(), h.manifests(), h.quoteLogs(t.Context())))
			_, got := hostWords(diagnosis.Diagnose(&diagnosis.Snapshot{Host: h.seen, Taken: time.Now()}))
			own := strings.Contains(got, "; this machine's own API server answers on port 6443")
			if !strings.Contains(got, tt.asks+":6443: the connection is refused") || own != tt.own || strings.Contains(got, "logs: ") == tt.own {
				t.Errorf("got %s", got)
			}
		})
	}
}

// A bundle has these files, too, whatever their age, and none of other pods.
func TestSupport_StaticLogs(t *testing.T) {
	m, _ := refusedServer(t)
	const log = podLogs + "/kube-system_etcd-cp1_2c3d/etcd/7.log"
	machinetest.Put(t, m, log, "2026-11-30T06:00:00.1Z stderr F password:\n2026-11-30T06:00:00.1Z stderr F   hunter2\n2026-11-30T06:00:00.1Z stderr F fatal\n")
	machinetest.Put(t, m, podLogs+"/shop_web-cp1_1/web/0.log", "x stdout F hunter2\n")
	before := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(m.Path(log), before, before))
	var found []string
	for _, f := range Support(t.Context(), m) {
		if strings.HasPrefix(f.Name, podLogs) {
			found = append(found, f.Name)
			if f.Err != nil || !strings.Contains(string(f.Data), "fatal") || strings.Contains(string(f.Data), "hunter2") {
				t.Errorf("%s: %s %v", f.Name, f.Data, f.Err)
			}
		}
	}
	if len(found) != 1 || found[0] != log {
		t.Errorf("got %v", found)
	}
}

// Who may not read the logs is told so.
func TestLook_StaticLogsUnseen(t *testing.T) {
	m, _ := refusedServer(t)
	machinetest.Put(t, m, podLogs, "a file, and no directory")
	_, notSeen := Look(t.Context(), m)
	for _, n := range notSeen {
		if n.What == diagnosis.HostLogsPart {
			return
		}
	}
	t.Errorf("not seen: %v", notSeen)
}
