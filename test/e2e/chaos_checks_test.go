package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// everywhere is a pod's that a taint keeps from no Node.
const everywhere = `"tolerations":[{"operator":"Exists"}],`

// modest is the spec of a pod that Pod Security's level "restricted" accepts, with further fields: a namespace with that level is no
// broken one.
func modest(fields string) string {
	return `{` + fields + `"securityContext":{"runAsNonRoot":true,"runAsUser":65534,"seccompProfile":{"type":"RuntimeDefault"}},` +
		`"containers":[{"name":"answerer","image":"` + answererImage + `","imagePullPolicy":"Never",` +
		`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}`
}

// broken asks what users ask of a cluster: does the API answer, are Nodes Ready, does a pod start on each, and reach a new Service by
// its name; are there logs; does a Deployment get its pod; does a new machine get a certificate; does a Service get an address.
// Each question is bounded.
func (c *chaos) broken(t *testing.T) []string {
	t.Helper()
	const bounded = "timeout 15 " + admin
	if r := c.sh(t, "cp1", bounded+"get --raw /readyz"); r.code != 0 {
		return []string{"the API server is not ready"}
	}
	var list []string
	if r := c.sh(t, "cp1", bounded+`get nodes --no-headers | awk '$2 != "Ready" {print $1}'`); r.code != 0 || strings.TrimSpace(r.out) != "" {
		list = append(list, "not Ready: "+strings.Join(strings.Fields(r.out), " "))
	}
	var script strings.Builder
	// A new Service: what was there before goes on with what kube-proxy, endpoints and DNS were.
	script.WriteString("kubectl delete service fresh --ignore-not-found >/dev/null 2>&1\nkubectl expose pod echo --name=fresh --port=80 --target-port=8080 >/dev/null 2>&1\n")
	beside := func(text string) { script.WriteString("{ " + text + "} &\n") }
	for _, m := range c.nodes {
		beside(fmt.Sprintf(`timeout 20 kubectl delete pod ask-%[1]s --ignore-not-found --now >/dev/null 2>&1
timeout 10 kubectl create -f - >/dev/null <<< '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"ask-%[1]s"},"spec":%[2]s}' || echo create %[1]s
timeout 40 kubectl wait --for=condition=Ready --timeout=30s pod/ask-%[1]s >/dev/null 2>&1 || echo start %[1]s
timeout 15 kubectl exec ask-%[1]s -- /answerer get http://fresh.default.svc.cluster.local/ >/dev/null 2>&1 || timeout 15 kubectl exec ask-%[1]s -- /answerer get http://fresh.default.svc.cluster.local/ >/dev/null 2>&1 || echo name %[1]s
timeout 10 kubectl logs ask-%[1]s >/dev/null 2>&1 || echo logs %[1]s
`, m, modest(`"nodeSelector":{"kubernetes.io/hostname":"`+m+`"},`+everywhere)))
	}
	beside(`timeout 15 kubectl delete deployment ask --ignore-not-found >/dev/null 2>&1
timeout 10 kubectl create -f - >/dev/null 2>&1 <<< '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"ask"},"spec":{"selector":{"matchLabels":{"app":"ask"}},"template":{"metadata":{"labels":{"app":"ask"}},"spec":` + modest("") + `}}}' && timeout 35 kubectl rollout status deployment ask --timeout=30s >/dev/null 2>&1 || echo deployment -
`)
	if c.kind.services {
		beside(`timeout 15 kubectl delete service ask --ignore-not-found >/dev/null 2>&1
timeout 10 kubectl create service loadbalancer ask --tcp=80:8080 >/dev/null 2>&1 && timeout 25 kubectl wait --for=jsonpath='{.status.loadBalancer.ingress[0].ip}' --timeout=20s service/ask >/dev/null 2>&1 || echo address -
kubectl delete service ask --ignore-not-found --wait=false >/dev/null 2>&1
`)
	}
	beside(asksToJoin)
	script.WriteString("wait\n")
	r := c.sh(t, "cp1", asAdmin+script.String())
	for line := range strings.Lines(r.out) {
		what, node, _ := strings.Cut(strings.TrimSpace(line), " ")
		says := map[string]string{
			"create": "no pod can be created", "start": "a pod does not start in 30 s on " + node,
			"name": "a pod does not reach a new Service by its name on " + node, "logs": "no logs from " + node,
			"deployment": "a Deployment gets no pod", "join": "a new machine gets no certificate", "info": "a new machine cannot read " + node,
			"address": "a Service gets no address",
		}[what]
		if says != "" && (len(list) == 0 || list[len(list)-1] != says) {
			list = append(list, says)
		}
	}
	return list
}

// asksToJoin does what the kubelet of `kubeadm join` does: it reads cluster-info without a name, asks for a certificate by a
// bootstrap token, and reads kubeadm's configuration with that token.
const asksToJoin = `server=$(awk '$1 == "server:" {print $2}' /etc/kubernetes/admin.conf)
token=chaos0.0123456789abcdef
timeout 10 kubeadm token create $token --ttl 1h >/dev/null 2>&1
sleep 2
curl -skm 10 $server/api/v1/namespaces/kube-public/configmaps/cluster-info | grep -q jws-kubeconfig-chaos0 || echo info cluster-info
joining() { timeout 10 kubectl --kubeconfig /dev/null --server $server --insecure-skip-tls-verify --token $token "$@"; }
for name in kubeadm-config kubelet-config; do joining -n kube-system get configmap $name >/dev/null 2>&1 || echo info $name; done
openssl req -new -newkey rsa:2048 -nodes -keyout /dev/null -subj /O=system:nodes/CN=system:node:ask 2>/dev/null > /root/ask.csr
kubectl delete csr ask --ignore-not-found >/dev/null 2>&1
joining create -f - >/dev/null 2>&1 <<END
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: ask}, spec: {request: $(base64 -w0 < /root/ask.csr),
  signerName: kubernetes.io/kube-apiserver-client-kubelet, usages: [digital signature, client auth]}}
END
timeout 20 kubectl wait --for=jsonpath='{.status.certificate}' --timeout=15s csr/ask >/dev/null 2>&1 || echo join -
`
