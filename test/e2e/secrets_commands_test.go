package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// commandsBefore runs what a machine has before it is a node: each cloud's file, refused settings, manifests that are checked.
func (s *secrets) commandsBefore(t *testing.T) {
	t.Helper()
	var list []string
	add := func(name, content, flags string) {
		s.putSecret(t, "w1", "/root/"+name, content)
		list = append(list, "ccmadm init --dry-run --config "+kubeadmYAML+" "+ignore+" "+flags)
	}
	secret := s.one("files of clouds")
	add("openstack.conf", fmt.Sprintf("[Global]\nauth-url=https://u:%s@keystone.example/v3\nusername=u\npassword=%s\napplication-credential-secret=\"%s\"\n# %s\n",
		secret(), secret(), secret(), secret()), "--provider openstack --cloud-config /root/openstack.conf")
	add("openstack-bad.conf", "[Global]\npassword="+secret()+"\n"+secret()+"\n", "--provider openstack --cloud-config /root/openstack-bad.conf")
	add("vsphere.conf", fmt.Sprintf("global:\n  secretsDirectory: /etc/x\n  password: %s\nvcenter:\n  a: {server: v.example, user: u, password: '%s'}\n", secret(), secret()),
		"--provider vsphere --cloud-config /root/vsphere.conf")
	add("azure.json", fmt.Sprintf(`{"tenantId":"a","subscriptionId":"b","resourceGroup":"c","location":"d","aadClientSecret":"%s"}`, secret()),
		"--provider azure --cloud-config /root/azure.json")
	add("azure-bad.json", `{"tenantId": "`+secret()+`", "aadClientSecret": "`+secret()+"\n", "--provider azure --cloud-config /root/azure-bad.json")
	add("key.json", `{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nMII`+secret()+`\n-----END PRIVATE KEY-----\n"}`,
		"--provider gcp --credential key.json=/root/key.json")
	add("token", secret()+secret()+secret()+secret(), "--provider hetzner --mode DaemonSet --credential token=/root/token")
	list = append(list, "ccmadm render --provider hetzner --image-tag v1.35.0 --cluster-name a --credential token=/root/token",
		"ccmadm render --provider openstack --image-tag v1.36.0 --cluster-name a --cloud-config /root/openstack.conf")
	for i, refused := range []string{
		"controllerManager: {extraEnv: ['API_TOKEN=%s']}", "controllerManager: {extraEnv: ['HTTPS_PROXY=http://u:%s@p.example:3128']}",
		"controllerManager: {extraArgs: ['--api-token=%s']}", "controllerManager: {extraArgs: ['--endpoint=https://u:%s@x.example']}",
		"controllerManager: {extraArgs: ['--token', '%s']}", "inventory: https://u:%s@x.example/inventory.yaml", "inventory: https://x.example/i?sig=%s",
		"controllerManager: {extraEnv: ['X=-----BEGIN PRIVATE KEY-----%s']}", "apiToken: %s", "nodeIP: 'token=%s'", "clusterName: password=%s",
	} {
		file := fmt.Sprintf("/root/refused-%d.yaml", i)
		s.putSecret(t, "w1", file, "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nprovider: onprem\n"+fmt.Sprintf(refused, secret())+"\n")
		list = append(list, "ccmadm config validate --config "+file+"; ccmadm config print --config "+file+"; ccmadm config migrate --config "+file)
	}
	s.putSecret(t, "w1", "/root/manifests.json", s.ownWorkload("manifests that are checked"))
	s.putSecret(t, "w1", "/root/inventory.yaml", fmt.Sprintf("apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmachines:\n- {id: a, hostname: w1, bmcPassword: %s}\n# %s\n",
		secret(), secret()))
	s.putSecret(t, "w1", "/root/broken.yaml", "kind: InitConfiguration\n\tpassword: "+secret()+"\nbootstrapTokens: [{token: abcdef."+secret()+"}]\n")
	list = append(list, "ccmadm lint -f /root/manifests.json; ccmadm lint -o json -f /root/manifests.json; ccmadm lint -o sarif -f /root/manifests.json",
		"ccmadm lint --diff -f /root/manifests.json", "ccmadm lint -f /root/broken.yaml; ccmadm init --dry-run --config /root/broken.yaml",
		"ccmadm machines check -f /root/inventory.yaml; ccmadm machines list -f /root/inventory.yaml")
	s.collect(t, "w1", list)
}

// ownWorkload is a manager of somebody else, whose pods have all shapes.
func (s *secrets) ownWorkload(place string) string {
	var pod struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := json.Unmarshal([]byte(s.ownPod(place)), &pod); err != nil {
		panic(err)
	}
	labels := map[string]string{"app": "acme"}
	pod.Metadata["labels"] = labels
	delete(pod.Metadata, "name")
	delete(pod.Metadata, "namespace")
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{
			"name": "acme-cloud-controller-manager", "namespace": "kube-system", "annotations": pod.Metadata["annotations"],
		},
		"spec": map[string]any{"replicas": 0, "selector": map[string]any{"matchLabels": labels}, "template": pod},
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// plantObjects makes objects of others, and writes into those that everybody writes into.
func (s *secrets) plantObjects(t *testing.T, m string) {
	t.Helper()
	type object = map[string]any
	var items []any
	meta := func(name string) object { return object{"name": name, "namespace": "kube-system"} }
	for i, text := range s.in("messages of Events on " + m) {
		items = append(items, object{
			"apiVersion": "v1", "kind": "Event", "metadata": meta(fmt.Sprintf("planted-%d", i)), "message": text, "reason": "Planted", "type": "Warning",
			"involvedObject": object{"kind": "Pod", "namespace": "kube-system", "name": "cloud-controller-manager-" + m}, "count": 1,
		})
	}
	files := map[string]string{}
	for i, text := range s.in("a ConfigMap of " + m) {
		files[fmt.Sprintf("file-%d", i)] = text
	}
	secret := s.one("Secrets of " + m)
	items = append(items, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("own"), "data": files},
		object{"apiVersion": "v1", "kind": "Secret", "metadata": meta("own"), "stringData": object{"password": secret(), "bgp": secret()}},
		json.RawMessage(s.ownWorkload("a Deployment of "+m)))
	list, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{}
	for i, text := range s.in("annotations of objects of " + m) {
		annotations[fmt.Sprintf("example.org/note-%d", i)] = text
	}
	patch, err := json.Marshal(object{"metadata": object{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	s.putSecret(t, m, "/root/objects.json", string(list))
	s.putSecret(t, m, "/root/patch.json", string(patch))
	s.must(t, m, asAdmin+`kubectl create -f /root/objects.json > /root/created 2>&1 || { cat /root/created; exit 1; }
for o in node/`+m+` "-n kube-system cm/kubeadm-config" "-n kube-system cm/kubelet-config" "-n kube-system ds/kube-proxy" "svc/kubernetes"; do
  kubectl patch $o --patch-file /root/patch.json > /dev/null; done`)
}

// daemonSet has the manager take a variable from its Secret, and looks at what is shown of that.
func (s *secrets) daemonSet(t *testing.T) {
	t.Helper()
	secret := s.one("credentials that apply was given")
	s.putSecret(t, "cp1", "/root/api-token", secret())
	s.putSecret(t, "cp1", "/root/cloud.yaml", "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nmode: DaemonSet\n"+
		"credentials: [{key: api-token, file: /root/api-token}]\ncontrollerManager: {extraEnv: ['API_TOKEN=${credential:api-token}']}\n")
	s.collect(t, "cp1", []string{"ccmadm diff -f /root/cloud.yaml", "ccmadm apply --dry-run -f /root/cloud.yaml", "ccmadm apply -f /root/cloud.yaml"})
	s.putSecret(t, "cp1", "/root/api-token", secret()) // another one
	s.collect(t, "cp1", []string{"ccmadm diff -f /root/cloud.yaml", "ccmadm apply -f /root/cloud.yaml"})
	if got := s.kubectl(t, "-n kube-system get ds onprem-cloud-controller-manager -o jsonpath='{.spec.template.spec.containers[0].env}'"); !strings.Contains(got, "API_TOKEN") {
		t.Errorf("the manager has no variable: %s", got)
	}
	// Somebody edits it by hand: diff shows what would be taken back.
	s.must(t, "cp1", asAdmin+"kubectl -n kube-system set env ds/onprem-cloud-controller-manager DB_PASS="+secret()+" > /dev/null")
	s.collect(t, "cp1", []string{"ccmadm diff --force", "ccmadm apply --force"})
	s.must(t, "cp1", asAdmin+"kubectl -n kube-system set env ds/onprem-cloud-controller-manager DB_PASS- > /dev/null") // it is not ours, and stays
}

// plantLogs writes into the logs of the manager and of the node agent, as they would.
func (s *secrets) plantLogs(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the manager and the agent run", func() bool {
		return s.sh(t, "cp1", "ls /var/log/pods/kube-system_onprem-cloud-controller-manager-*/*/0.log /var/log/pods/kube-system_ccmadm-node-agent-*/*/0.log").code == 0
	})
	for _, pod := range []string{"onprem-cloud-controller-manager", "ccmadm-node-agent"} {
		lines := strings.Join(s.in("the log of "+pod), "\n")
		s.putSecret(t, "cp1", "/root/lines", lines+"\n")
		s.must(t, "cp1", `f=$(ls -t /var/log/pods/kube-system_`+pod+`-*/*/0.log | head -n 1); cp $f /root/got/log-of-`+pod+`.txt
while IFS= read -r line; do printf '%s stderr F %s\n' $(date -u +%FT%T.%NZ) "$line"; done < /root/lines > /root/said-so; cat /root/said-so >> $f`)
	}
}

// commands are those that look at a cluster and a machine.
func (s *secrets) commands(t *testing.T) {
	t.Helper()
	look := []string{
		"ccmadm status; ccmadm status -o json; ccmadm status -o yaml", "ccmadm wait --timeout 5s; ccmadm wait -o json --timeout 5s",
		"ccmadm doctor -v 6; ccmadm doctor --host; ccmadm doctor -o json --host; ccmadm doctor -o html --host; ccmadm doctor -o sarif",
		"ccmadm doctor --host --save /root/got/snapshot.json; ccmadm doctor --from /root/got/snapshot.json", "ccmadm node show -o json; ccmadm node show",
		"ccmadm support-bundle -o /root/bundle.tar.gz && mkdir -p /root/got/bundle && tar xzf /root/bundle.tar.gz -C /root/got/bundle",
		"ccmadm upgrade plan; ccmadm upgrade plan -o json", "ccmadm certs check-expiration", "ccmadm reset --dry-run",
	}
	s.collect(t, "cp1", append(look, "ccmadm journal; for n in $(seq 9); do ccmadm journal $n; ccmadm journal $n -o json; done", "ccmadm lb list; ccmadm lb pools; ccmadm routes list",
		"ccmadm diff --force", "ccmadm leave --dry-run", "ccmadm rollback --dry-run", "ccmadm machines list; ccmadm machines export",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get cm,ds,deploy,sa,role,rolebinding -l app.kubernetes.io/managed-by=ccmadm -o yaml",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf get nodeagents,addresspools,bgppeers,clusterroles,crd -l app.kubernetes.io/managed-by=ccmadm -o yaml; "+
			"kubectl --kubeconfig /etc/kubernetes/admin.conf get nodeagents -o yaml",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get cm ccmadm-config ccmadm-journal ccmadm-applied -o yaml",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf get events -A -o yaml --field-selector reason!=Planted"))
	s.collect(t, "w1", []string{"ccmadm doctor --host; ccmadm node show; ccmadm status", "ccmadm support-bundle -o /root/b.tgz && mkdir -p b && tar xzf /root/b.tgz -C b"})
	s.collect(t, "w2", append(look, "ccmadm adopt --provider onprem --dry-run; ccmadm adopt --provider onprem --dry-run -o json",
		"ccmadm rehearse --provider onprem --timeout 10s --log /root/got/rehearse.log"))
}
