package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// servingInit makes a cluster whose kubelets ask for serving certificates, and whose API server, other than kubeadm's,
// looks at them.
const servingInit = `sed -e 's/^kind: KubeletConfiguration/&\nserverTLSBootstrap: true/' \
-e 's#^kind: ClusterConfiguration#&\napiServer: {extraArgs: [{name: kubelet-certificate-authority, value: /etc/kubernetes/pki/ca.crt}]}#' ` +
	kubeadmYAML + ` > /tmp/k.yaml
grep -c 'serverTLSBootstrap\|certificate-authority' /tmp/k.yaml
cat /tmp/cloud.yaml >> /tmp/k.yaml
ccmadm init --config /tmp/k.yaml ` + ignore

const servingCloud = `---
apiVersion: ccmadm.dev/v1alpha1
kind: CloudConfiguration
cloudConfig: {file: cloud.conf}
inventory: inventory.yaml
servingCertificates: {enabled: true}
controllerManager: {extraArgs: [--node-status-update-frequency=5s]}
`

// servingMachines is the inventory of TestServing. Of w1's addresses the first is its InternalIP: upstream keeps one of each
// type, that of --node-ip.
func servingMachines(serial int, cp1 string, w1 ...string) string {
	var addresses []string
	for i, ip := range w1 {
		addresses = append(addresses, "{type: "+[]string{"InternalIP", "ExternalIP"}[i]+", address: "+ip+"}")
	}
	return fmt.Sprintf(`apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: %d}
policy: {unknownNodes: hold}
machines:
- {id: r1, hostname: cp1, protected: true, addresses: [{type: InternalIP, address: %s}]}
- {id: r2, hostname: w1, addresses: [%s]}
`, serial, cp1, strings.Join(addresses, ", "))
}

// TestServing: logs and exec over certificates of the cluster's CA, while the address of a machine changes; and what
// somebody with the credentials of its kubelet asks for.
func TestServing(t *testing.T) {
	t.Parallel()
	l := up(t, "serving", 1, 1)
	cp1, w1 := l.ownAddress(t, "cp1"), l.ownAddress(t, "w1")
	l.put(t, "/tmp/cloud.conf", onpremConfig)
	l.put(t, "/tmp/inventory.yaml", servingMachines(1, cp1, w1))
	l.put(t, "/tmp/cloud.yaml", servingCloud)
	l.must(t, "cp1", servingInit)
	l.must(t, "w1", l.joinCommand(t))
	l.expectNodes(t, "cp1", "w1")
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, `run echo --image=`+echoImage+
		` --image-pull-policy=Never --overrides='{"spec":{"nodeName":"w1","hostNetwork":true}}'`)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/echo")
	l.expectServed(t, w1)
	if out := l.must(t, "cp1", "ccmadm status"); !strings.Contains(out, "serving certificates: approved, none is pending") {
		t.Errorf("status does not tell:\n%s", out)
	}
	t.Run("forged", func(t *testing.T) { l.expectForgeriesHeld(t, cp1, w1) })
	t.Run("the address changes, and logs are read all the time", func(t *testing.T) {
		next := w1[:strings.LastIndex(w1, ".")] + ".250"
		l.must(t, "w1", "ip address add "+next+"/24 dev eth0")
		reads := l.readsLogs(t)
		l.replaceInventory(t, servingMachines(2, cp1, w1, next)) // the old one stays what it is reached at
		l.expectCertificateOf(t, w1, w1, next)
		l.replaceInventory(t, servingMachines(3, cp1, next, w1))
		l.restartKubelet(t, next)
		eventually(t, time.Minute, "it is reached at the new one", func() bool { return l.addresses(t, "w1") == next })
		l.replaceInventory(t, servingMachines(4, cp1, next))
		l.expectCertificateOf(t, next, next)
		failed, all := reads()
		t.Logf("%d of %d readings of logs failed", failed, all)
		if failed > 3 { // a kubelet that is being restarted answers nobody
			t.Errorf("%d of %d readings of logs failed", failed, all)
		}
		l.expectServed(t, next)
	})
	t.Run("the address changes at once", func(t *testing.T) {
		other := w1[:strings.LastIndex(w1, ".")] + ".251"
		l.must(t, "w1", "ip address add "+other+"/24 dev eth0")
		l.replaceInventory(t, servingMachines(5, cp1, other))
		l.restartKubelet(t, other)
		changed := time.Now()
		eventually(t, 60*time.Second, "the Node has it", func() bool { return l.addresses(t, "w1") == other })
		l.expectServed(t, other)
		t.Logf("served %s after the kubelet was told", time.Since(changed).Round(time.Second))
	})
}

// restartKubelet gives that of w1 another --node-ip.
func (l *lab) restartKubelet(t *testing.T, ip string) {
	t.Helper()
	const change = "sed -i 's/--node-ip=[0-9.]*/--node-ip=%s/' /var/lib/kubelet/kubeadm-flags.env"
	l.must(t, "w1", fmt.Sprintf(change, ip)+" && systemctl restart kubelet")
}

// ownAddress is a machine's on eth0.
func (l *lab) ownAddress(t *testing.T, node string) string {
	t.Helper()
	return strings.TrimSpace(l.must(t, node, "ip -4 -o address show dev eth0 | awk '{print $4}' | cut -d/ -f1 | head -1"))
}

// expectServed waits until w1 has a certificate of the cluster's CA for its address, and reads logs and runs a command
// over it.
func (l *lab) expectServed(t *testing.T, ip string) {
	t.Helper()
	l.expectCertificateOf(t, ip, ip)
	eventually(t, 30*time.Second, "logs are read, and a command is run", func() bool {
		return l.sh(t, "cp1", admin+"logs echo && "+admin+"exec echo -- /echo get http://127.0.0.1:8080/").code == 0
	})
}

// expectCertificateOf waits until the kubelet at that address has a certificate for these, which the CA signed. One for an
// address that it has no more it keeps until it is renewed.
func (l *lab) expectCertificateOf(t *testing.T, at string, ips ...string) {
	t.Helper()
	want := []string{"DNS:w1"}
	for _, ip := range ips {
		want = append(want, "IP Address:"+ip)
	}
	const show = "openssl s_client -connect %s:10250 -CAfile /etc/kubernetes/pki/ca.crt -verify_return_error </dev/null 2>/dev/null | " +
		"openssl x509 -noout -ext subjectAltName"
	eventually(t, 90*time.Second, fmt.Sprintf("w1 has a certificate for %v", ips), func() bool {
		got := strings.Fields(strings.ReplaceAll(l.sh(t, "cp1", fmt.Sprintf(show, at)).out, ", ", "\n"))
		text := strings.Join(got, " ")
		for _, name := range want {
			if !strings.Contains(text+" ", name+" ") {
				return false
			}
		}
		return true
	})
}

// enoughReads are those that tell something of a time in which one may fail.
const enoughReads = 20

// readsLogs reads logs about twice a second, until the function is called that tells how often that failed, of how often.
func (l *lab) readsLogs(t *testing.T) func() (failed, all int) {
	t.Helper()
	l.must(t, "cp1", `rm -f /tmp/reads /tmp/enough; (until [ -e /tmp/enough ]; do `+
		`timeout 10 kubectl --kubeconfig /etc/kubernetes/admin.conf logs echo > /dev/null 2> /tmp/why && echo ok >> /tmp/reads || `+
		`(echo failed $(date +%T) $(cat /tmp/why) >> /tmp/reads); sleep 0.5; done) > /dev/null 2>&1 &`)
	return func() (int, int) {
		eventually(t, time.Minute, fmt.Sprintf("logs are read %d times", enoughReads), func() bool {
			return strings.Count(l.sh(t, "cp1", "cat /tmp/reads").out, "\n") >= enoughReads
		})
		out := l.must(t, "cp1", "touch /tmp/enough; cat /tmp/reads")
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "failed") {
				t.Log(line)
			}
		}
		return strings.Count(out, "failed"), strings.Count(out, "\n")
	}
}

// expectForgeriesHeld asks with the credentials of w1's kubelet, which may create any request under its own name.
func (l *lab) expectForgeriesHeld(t *testing.T, cp1, w1 string) {
	const request = `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout /dev/null ` +
		`-subj '%s' -addext '%s' 2>/dev/null | base64 -w0`
	const object = `cat > /tmp/csr.yaml <<END
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: forged-%d}
spec: {signerName: kubernetes.io/kubelet-serving, usages: [%s], request: $(%s)}
END
kubectl --kubeconfig /etc/kubernetes/kubelet.conf create -f /tmp/csr.yaml`
	const subject, usages = "/O=system:nodes/CN=system:node:w1", "digital signature, server auth"
	for i, c := range []struct{ subject, names, usages, want string }{
		{subject, "subjectAltName=DNS:w1,IP:" + cp1, usages, "AddressNotOfNode|ReservedAddress"},
		{subject, "subjectAltName=DNS:w1,IP:" + w1 + ",IP:10.96.0.1", usages, "AddressNotOfNode|ReservedAddress"},
		{subject, "subjectAltName=DNS:cp1,IP:" + w1, usages, "NameNotOfNode|ReservedName"},
		{subject, "subjectAltName=DNS:kubernetes.default.svc", usages, "ReservedName"},
		{subject, "subjectAltName=DNS:*.w1", usages, "WrongNames"},
		{subject, "subjectAltName=DNS:w1,email:root@w1", usages, "WrongNames"},
		{subject, "subjectAltName=DNS:w1", "client auth, digital signature, server auth", "WrongUsages"},
		{"/O=system:nodes/O=system:masters/CN=system:node:w1", "subjectAltName=DNS:w1", usages, "WrongOrganization"},
		{subject, "subjectAltName=IP:198.51.100.7", usages, "AddressNotOfNode"},
	} {
		l.must(t, "w1", fmt.Sprintf(object, i, c.usages, fmt.Sprintf(request, c.subject, c.names)))
		name := fmt.Sprintf("forged-%d", i)
		eventually(t, 30*time.Second, name+" is held: "+c.want, func() bool {
			out := l.kubectl(t, "get events -A --field-selector involvedObject.name="+name+" -o jsonpath='{.items[*].reason}'")
			return regexp.MustCompile(c.want).MatchString(out)
		})
		if out := l.kubectl(t, "get csr "+name+" -o jsonpath='{.status}'"); out != "{}" && out != "" {
			t.Errorf("%s is not pending: %s", name, out)
		}
	}
	out := l.must(t, "cp1", "ccmadm status")
	if !strings.Contains(out, "9 are pending") || !strings.Contains(out, "system:node:w1") {
		t.Errorf("status does not tell:\n%s", out)
	}
}
