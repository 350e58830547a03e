package components

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// ConfigurationFile is where remedies write kubeadm's configuration. In a directory that others write to, one of them could put a link
// in its place.
const ConfigurationFile = "/root/ccmadm-kubeadm.yaml"

// EtcdDataDir is where kubeadm's etcd has its data unless the configuration says otherwise.
const EtcdDataDir = "/var/lib/etcd"

// LiveConfiguration is the command that writes kubeadm's configuration of the cluster into that file.
const LiveConfiguration = "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get configmap kubeadm-config " +
	"-o 'jsonpath={.data.ClusterConfiguration}' > " + ConfigurationFile

// OwnConfiguration is the command that adds to that file what control planes do not share, on the one where it runs: the address and the port
// of its API server, and the name of its Node where that is not the hostname. kubeadm would take the address of the default route; what is
// empty is left to it.
const OwnConfiguration = `printf '\n---\n%s\nkind: InitConfiguration\nnodeRegistration: {name: "%s"}\n` +
	`localAPIEndpoint: {advertiseAddress: "%s", bindPort: %s}\n' "$(grep -m 1 ^apiVersion: ` + ConfigurationFile + `)" ` +
	`"$(sed -n 's/.*--hostname-override=\([^ "]*\).*/\1/p' ` + machine.KubeadmFlags + `)" ` +
	`"$(sed -n 's/^ *- --advertise-address=//p' ` + machine.APIServerPod + `)" ` +
	`"$(sed -n 's/^ *- --secure-port=//p' ` + machine.APIServerPod + `)" >> ` + ConfigurationFile

// NewServerCertificate is the command that makes the API server's certificate again, for the names in the configuration. kubeadm goes on
// with a pair that it finds: it makes the new one in a directory of its own, which then replaces the former one, of which a copy stays. $D
// is the cluster's directory of certificates.
const NewServerCertificate = LiveConfiguration + " && " + OwnConfiguration +
	" && D=$(sed -n 's/^certificatesDir: //p' " + ConfigurationFile + ")" +
	" && sed -i 's#^certificatesDir: .*#certificatesDir: " + newPKI + "#' " + ConfigurationFile +
	" && mkdir -p -m 700 " + newPKI + " && rm -f " + newPKI + "/apiserver.crt " + newPKI + "/apiserver.key" +
	` && ln -sf "$D/ca.crt" "$D/ca.key" ` + newPKI + "/" +
	" && kubeadm init phase certs apiserver --config " + ConfigurationFile +
	" && cp -p --backup=numbered " + newPKI + "/apiserver.crt " + newPKI + `/apiserver.key "$D/"`

// newPKI is where kubeadm makes a pair that is to replace another one.
const newPKI = "/root/ccmadm-pki"

// restore writes the manifest of a static pod again, from the configuration in the cluster and what is known of the Node. That of etcd
// names the machine as the only member of a new cluster, which counts where there is no data: an empty cluster would start.
func (j *judge) restore(component, node string) string {
	phase, first := "control-plane "+strings.TrimPrefix(component, "kube-"), ""
	if component == Etcd {
		phase, first = "etcd local", "test -d "+machine.ShellQuote(j.etcdData())+" && "
	}
	return fmt.Sprintf("on %s: %s%s && printf %s >> %s && kubeadm init phase %s --config %[5]s",
		node, first, LiveConfiguration, machine.ShellQuote(j.initConfiguration(node)), ConfigurationFile, phase)
}

// restoreAddon makes what kubeadm deploys in the cluster again.
func restoreAddon(name string) string {
	return "on a control plane: " + LiveConfiguration + " && kubeadm init phase addon " + name + " --config " + ConfigurationFile
}

// etcdData is where a member keeps its log: one that has it goes on with the cluster that the log names.
func (j *judge) etcdData() string {
	return path.Join(cmp.Or(j.EtcdDataDir, EtcdDataDir), "member/wal")
}

func (j *judge) rejoin() string {
	return "where " + j.etcdData() + " is there, write the manifest again; where it is gone, do not: an empty etcd cluster would start; " +
		"run `etcdctl member remove` for the machine on another control plane, `kubeadm reset` on it, and then `ccmadm join` or " +
		"`kubeadm join --control-plane`"
}

// initConfiguration is what kubeadm would guess of a Node by its host name and default route, as a format of printf.
func (j *judge) initConfiguration(node string) string {
	text := fmt.Sprintf(`\n---\napiVersion: %s\nkind: InitConfiguration\nnodeRegistration: {name: "%s"}\n`,
		cmp.Or(j.APIVersion, "kubeadm.k8s.io/v1beta4"), node)
	var fields []string
	if address := j.advertised(node); address.IsValid() {
		fields = append(fields, fmt.Sprintf(`advertiseAddress: "%s"`, address))
	}
	for _, p := range j.of(APIServer) { // they are alike on all control planes
		if port, err := strconv.Atoi(argument(templates.OwnContainer(&p.Spec, APIServer), "secure-port")); err == nil {
			fields = append(fields, fmt.Sprintf("bindPort: %d", port))
			break
		}
	}
	if len(fields) > 0 {
		text += `localAPIEndpoint: {` + strings.Join(fields, ", ") + `}\n`
	}
	return text
}

// advertised is the address that the Node's API server tells of itself, or the Node's etcd, to which kubeadm gives the same one; else
// the first InternalIP.
func (j *judge) advertised(node string) netip.Addr {
	for _, p := range j.of(APIServer) {
		address, err := netip.ParseAddr(argument(templates.OwnContainer(&p.Spec, APIServer), "advertise-address"))
		if p.Spec.NodeName == node && err == nil {
			return address
		}
	}
	for _, p := range j.of(Etcd) {
		address := hostOf(argument(templates.OwnContainer(&p.Spec, Etcd), "advertise-client-urls"))
		if p.Spec.NodeName == node && address.IsValid() {
			return address
		}
	}
	if n := j.node(node); n != nil {
		for _, address := range nodestatus.InternalIPs(n) {
			return address
		}
	}
	return netip.Addr{}
}

// hostOf is the address in a URL; none: there is a name, or no URL.
func hostOf(text string) netip.Addr {
	u, err := url.Parse(text)
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(u.Hostname())
	return address
}
