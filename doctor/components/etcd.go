package components

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// EtcdLog is the pod of etcd whose log tells of the others, where there are several control planes or were. Nil: there is none.
func (s *Seen) EtcdLog() *corev1.Pod {
	i := slices.IndexFunc(s.Static, func(p corev1.Pod) bool { return p.Labels[v1alpha1.ComponentLabel] == Etcd && nodes.IsPodReady(&p) })
	if i < 0 {
		return nil
	}
	return &s.Static[i]
}

// memberID is one as etcd writes it.
var memberID = regexp.MustCompile(`^[0-9a-f]{8,16}$`)

const (
	// EtcdLogged is of what time the log of [Seen.EtcdLog] is asked for, by the clock of its machine: more than the 5 s after which a member
	// logs again that it does not reach another one (etcd server/etcdserver/api/rafthttp/probing_status.go). An older line is of a restart.
	EtcdLogged = 20 * time.Second
	// clocksDiffer is by how much the clock of those who ask may be ahead of etcd's: an older line is of a log that was asked for otherwise.
	clocksDiffer = 5 * time.Minute
	// probedAgain is how long after a member is ready another one may still log that it does not reach it.
	probedAgain = 10 * time.Second
)

// memberSilent is a line of a member's log about another member (etcd server/etcdserver/api/rafthttp/probing_status.go).
type memberSilent struct {
	Time    string `json:"ts"`
	Message string `json:"msg"`
	Peer    string `json:"remote-peer-id"`
	Error   string `json:"error"`
	Took    string `json:"took"`
}

// dialled is the address that a member could not reach.
var dialled = regexp.MustCompile(`dial tcp (\S+:\d+): `)

// JudgeEtcd finds members of etcd that are in its list and do not answer, by what another member logs of them. Where the pod of
// that member is not ready, or its Node, that is said of these.
func JudgeEtcd(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil || !cluster.Kubeadm || cluster.ExternalEtcd || seen.EtcdLog() == nil {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	teller := seen.EtcdLog()
	var list []finding.Finding
	var known []string
	var newest time.Time
	for _, line := range slices.Backward(j.Logs[teller.Name]) {
		var said memberSilent
		if json.Unmarshal([]byte(line), &said) != nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, said.Time)
		if err != nil {
			continue
		}
		if at.After(newest) {
			newest = at
		}
		if said.Message != "prober detected unhealthy status" || !memberID.MatchString(said.Peer) {
			continue
		}
		m := dialled.FindStringSubmatch(said.Error)
		if newest.Sub(at) > EtcdLogged || j.Now.Sub(at) > EtcdLogged+clocksDiffer || slices.Contains(known, said.Peer) {
			continue
		}
		var f *finding.Finding
		switch {
		case m != nil:
			f = j.memberDown(teller, said.Peer, m[1], at)
		case refusesTLS.MatchString(said.Error):
			f = j.memberRefuses(teller, said.Peer, said.Error)
		default:
			continue
		}
		known = append(known, said.Peer)
		if f != nil {
			list = append(list, *f)
		}
	}
	return append(list, j.slowDisk(teller, newest)...)
}

// refusesTLS is an error of one of two members that does not accept the certificate of the other one.
var refusesTLS = regexp.MustCompile(`\b(?:tls|x509): `)

// memberRefuses is about a member that answers, and with which no connection comes about.
func (j *judge) memberRefuses(teller *corev1.Pod, id, why string) *finding.Finding {
	f := finding.EtcdMemberDown.New("Pod/kube-system/"+teller.Name, fmt.Sprintf("etcd on %s and member %s do not accept each other's certificate: %s",
		teller.Spec.NodeName, id, nodes.Shorten(why)))
	f.Do = "renew the certificates that have ended (kubeadm certs renew etcd-peer), or make those of another CA again; then start etcd there again"
	f.Next = fmt.Sprintf("on each control plane: openssl x509 -noout -dates -issuer -in %s/etcd/peer.crt", j.PKI)
	return &f
}

// slow is what etcd logs where a write to its disk took longer than a second (server/storage/wal/wal.go), or a heartbeat was late for that
// (server/etcdserver/raft.go).
var slow = regexp.MustCompile(`^slow fdatasync|^leader failed to send out heartbeat on time`)

// slowDisk is about the disk of the member whose log was read.
func (j *judge) slowDisk(teller *corev1.Pod, newest time.Time) []finding.Finding {
	for _, line := range slices.Backward(j.Logs[teller.Name]) {
		var said memberSilent
		if json.Unmarshal([]byte(line), &said) != nil || !slow.MatchString(said.Message) {
			continue
		}
		at, err := time.Parse(time.RFC3339, said.Time)
		if err != nil || newest.Sub(at) > EtcdLogged || j.Now.Sub(at) > EtcdLogged+clocksDiffer {
			continue
		}
		message := "etcd on " + teller.Spec.NodeName + " logs: " + said.Message
		if said.Took != "" {
			message += " took " + said.Took
		}
		f := finding.EtcdSlow.New("Pod/kube-system/"+teller.Name, finding.Clean(message))
		f.Next = "on " + teller.Spec.NodeName + ": grep -H . /proc/pressure/io; iostat -x 1 5"
		return []finding.Finding{f}
	}
	return nil
}

// memberDown is about a member by its address, which was not reached at a time. Nil: what is wrong is found elsewhere, or is over.
func (j *judge) memberDown(teller *corev1.Pod, id, address string, at time.Time) *finding.Finding {
	of, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil //nolint:nilerr // of a name nothing is known
	}
	node := ""
	for i := range j.Nodes {
		if slices.ContainsFunc(j.Nodes[i].Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == of.Addr().String() }) {
			node = j.Nodes[i].Name
		}
	}
	if p := j.readyEtcd(node); node != "" && (p == nil || j.Skip(node) || at.Before(readySince(p).Add(probedAgain))) {
		return nil
	}
	where, next := "no Node has its address", ""
	if node == "" {
		dir := j.PKI + "/etcd/"
		next = fmt.Sprintf("kubectl -n kube-system exec %s -- etcdctl --endpoints=https://127.0.0.1:2379 "+
			"--cacert=%sca.crt --cert=%[2]shealthcheck-client.crt --key=%[2]shealthcheck-client.key member ", teller.Name, dir)
		if why := j.mayBeOf(); why == "" {
			next = "once its machine is known to be gone: " + next + "remove " + id
		} else {
			where += ", and " + why + ": it may be a member that joins, or one with another network"
			next += "list -w table"
		}
	} else {
		where = "it is that of Node " + node + ", whose etcd is ready: the way between them is not open"
		next = "on " + teller.Spec.NodeName + ": nc -vz " + strings.Replace(address, ":"+fmt.Sprint(of.Port()), fmt.Sprintf(" %d", of.Port()), 1)
	}
	f := finding.EtcdMemberDown.New("Pod/kube-system/"+teller.Name, fmt.Sprintf("etcd on %s does not reach member %s at %s, and %s",
		teller.Spec.NodeName, id, address, where))
	f.Next = next
	return &f
}

// mayBeOf says why an address that no Node has may be that of a member which is needed; empty: each Node states its addresses, and each
// control plane has a ready member that others reach by one of these. A control plane that joins is not labelled yet.
func (j *judge) mayBeOf() string {
	for i := range j.Nodes {
		n := &j.Nodes[i]
		var own []string
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				own = append(own, a.Address)
			}
		}
		if len(own) == 0 {
			return "Node " + n.Name + " has no address"
		}
		if !nodes.IsControlPlane(n) {
			continue
		}
		p := j.readyEtcd(n.Name)
		if p == nil || len(p.Spec.Containers) == 0 {
			return "etcd on " + n.Name + " is not ready"
		}
		u, err := url.Parse(argument(templates.OwnContainer(&p.Spec, Etcd), "initial-advertise-peer-urls"))
		if err != nil || !slices.Contains(own, u.Hostname()) {
			return "the peer URL of etcd on " + n.Name + " has no address of the Node"
		}
	}
	return ""
}

// readyEtcd is the pod of a Node; nil: it is not ready, or there is none.
func (j *judge) readyEtcd(node string) *corev1.Pod {
	i := slices.IndexFunc(j.Static, func(p corev1.Pod) bool {
		return p.Labels[v1alpha1.ComponentLabel] == Etcd && p.Spec.NodeName == node && nodes.IsPodReady(&p)
	})
	if i < 0 {
		return nil
	}
	return &j.Static[i]
}
