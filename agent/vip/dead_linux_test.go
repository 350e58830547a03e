package vip

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listed is what the API servers of a site list, from files: one for all of them, as with one etcd.
func listed(w http.ResponseWriter, r *http.Request, dir string) bool {
	file := map[string]string{"/api/v1/nodes": "nodes", "/api/v1/namespaces/kube-system/pods": "pods"}[r.URL.Path]
	if file == "" {
		return false
	}
	data, err := os.ReadFile(filepath.Join(dir, file+".json"))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
	return true
}

// cluster writes what is listed: all Nodes are ready, and the pod of the dead one is not, for an hour, if it is told.
func cluster(t *testing.T, dir, dead string, told bool, hosts ...int) {
	t.Helper()
	nodes := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, host := range hosts {
		n := controlPlane("a", corev1.ConditionTrue, time.Hour)
		n.Name = fmt.Sprintf("cp%d", host)
		n.CreationTimestamp = metav1.NewTime(time.Unix(int64(host), 0))
		n.Status.Addresses[0].Address = fmt.Sprintf("192.0.2.%d", 10+host)
		nodes.Items = append(nodes.Items, n)
		ready := corev1.ConditionTrue
		if n.Name == dead && told {
			ready = corev1.ConditionFalse
		}
		pods.Items = append(pods.Items, vipPod(n.Name, ready, time.Hour))
	}
	for name, object := range map[string]any{"nodes": nodes, "pods": pods} {
		data, err := json.Marshal(object)
		must(t, err)
		next := filepath.Join(dir, name+".next")
		must(t, os.WriteFile(next, data, 0o600))
		must(t, os.Rename(next, filepath.Join(dir, name+".json")))
	}
	kubeconfig := fmt.Sprintf(`{"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:6443","tls-server-name":"kubernetes",`+
		`"certificate-authority":%q}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`, dir+"/ca.crt")
	must(t, os.WriteFile(dir+"/none", []byte(kubeconfig), 0o600))
}

// knows waits until the machine's program has written these control planes, and those without a vote.
func (c *cp) knows(t *testing.T, names, silent string) {
	t.Helper()
	eventually(t, 10*time.Second, c.name+" knows "+names+", without a vote "+silent, func() bool {
		members, err := readMembers(filepath.Join(c.dir, c.name+".json"))
		must(t, err)
		all, without := "", ""
		for _, m := range members {
			all += m.Name + " "
			if m.Silent {
				without += m.Name + " "
			}
		}
		return all == names && without == silent
	})
}

// The program of the oldest of three control planes is dead, and its kubelet is not. Then the second one is deleted, and
// another one joins in its place. The address stays with the machines that work, since the cluster says of the dead pod
// that it is not Ready. Where it does not, nobody has the address from the deletion on: what this test is about.
func TestVIP_DeadPod(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("told %t", told), func(t *testing.T) {
			ownNamespace(t)
			machines := wire(t, 4)
			client := newAsker(t, "client")
			cps := map[int]*cp{}
			for _, m := range machines {
				cps[m.host-10] = m
			}
			dir := cps[1].dir
			cluster(t, dir, "", told, 1, 2, 3)
			for host := 1; host <= 3; host++ {
				cps[host].startVIP(t, 3)
			}
			client.wait(t, machines, 20*time.Second, "")
			kill(cps[1].vip)
			cluster(t, dir, "cp1", told, 1, 2, 3)
			silent := ""
			if told {
				silent = "cp1 "
			}
			for host := 2; host <= 3; host++ {
				cps[host].knows(t, "cp1 cp2 cp3 ", silent)
			}
			time.Sleep(3 * time.Second) // older lists retire
			kill(cps[2].vip)
			cps[2].down(t)
			cluster(t, dir, "cp1", told, 1, 3)
			cps[3].knows(t, "cp1 cp3 ", silent)
			if !told {
				if mac, there := client.quiet(t, machines, 8*time.Second); there {
					t.Errorf("%s has the address without the cluster's word: this shows nothing", machines[mac].name)
				}
				return
			}
			if mac := client.wait(t, machines, 10*time.Second, ""); mac != cps[3].mac {
				t.Errorf("%s has the address, want the only one that works", machines[mac].name)
			}
			cluster(t, dir, "cp1", told, 1, 3, 4)
			cps[4].startVIPOf(t, 1, 3, 4) // it begins with all of them, as one that has joined
			cps[4].knows(t, "cp1 cp3 cp4 ", silent)
			if mac, _ := client.quiet(t, machines, 3*time.Second); mac != cps[3].mac {
				t.Errorf("%s has the address behind the join, want the one that had it", machines[mac].name)
			}
			kill(cps[3].api)
			if mac := client.wait(t, machines, 10*time.Second, cps[3].mac); mac != cps[4].mac {
				t.Errorf("%s has the address, want the one that has joined", machines[mac].name)
			}
			if client.double > 0 {
				t.Errorf("two answered at the same time, %d times", client.double)
			}
		})
	}
}

// quiet asks for a while, and returns who answered in its last second.
func (a *asker) quiet(t *testing.T, machines map[string]*cp, limit time.Duration) (mac string, there bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		mac, there = "", false
		for again := time.Now().Add(time.Second); time.Now().Before(again); {
			if found := a.once(t); machines[found] != nil {
				mac, there = found, true
			}
		}
	}
	return mac, there
}

// once asks once, and returns the MAC of who answers.
func (a *asker) once(t *testing.T) string {
	t.Helper()
	a.forget(t)
	must(t, a.arp.SetDeadline(time.Now().Add(50*time.Millisecond)))
	_ = a.arp.Request([]byte{192, 0, 2, 10}) // the bridge may not forward yet
	for {
		p, _, err := a.arp.Read()
		if err != nil {
			return ""
		}
		if p.SenderIP.String() == "192.0.2.10" {
			return p.SenderHardwareAddr.String()
		}
	}
}
