package e2e

const (
	goodOpenstack = `install -m 600 /dev/null /tmp/cloud.conf && printf '[Global]\nauth-url=https://keystone.example.com/v3\n' > /tmp/cloud.conf; `
	openstackInit = ccmadmInit + " --provider openstack --cloud-config /tmp/cloud.conf"
	profileInit   = ccmadmInit + " --profile /tmp/profile.yaml"
	profileHead   = `apiVersion: ccmadm.dev/v1alpha1\nkind: ProviderProfile\nname: mine\ntitle: Mine\nstatus: BestEffort\nfeatures: [Nodes]\nmodes: [DaemonSet]\nnode: {name: free, providerID: "mine://<ID>"}\n`
)

// providerInputs are what can be wrong with a provider, its files, or a profile of the user's own.
var providerInputs = []badInput{
	{name: "a slip in the provider's name", run: ccmadmInit + " --provider hetzne", code: 2, want: []string{`"hetzne": unknown provider, did you mean "hetzner"?`, "known are alibaba, aws"}},
	{name: "no DMI data", run: ccmadmInit + " --provider auto", code: 3, want: []string{"Provider: detect the provider: this machine has no DMI data in /sys/class/dmi/id", "hint: --provider names one"}},
	{name: "a machine that no profile knows", given: dmi("Dell Inc.", "PowerEdge R640"), undo: realDMI, run: ccmadmInit + " --provider auto", code: 3, want: []string{`sys_vendor "Dell Inc.", product_name "PowerEdge R640", which fits no profile`, "`onprem` is for machines without a cloud"}},
	{name: "a machine that two profiles know", given: dmi("Amazon EC2", "Google Compute Engine"), undo: realDMI, run: ccmadmInit + " --provider auto", code: 3, want: []string{"which fits aws and gcp", "--provider names one of them"}},
	{name: "a cloud config of another format", given: `printf '{"Global": {}}' > /tmp/cloud.conf`, run: openstackInit, code: 3, want: []string{"CloudConfig: read /tmp/cloud.conf: not ini: line 1: want [Section] and key = value; for example", "auth-url = "}},
	{name: "broken JSON", given: `printf '{"tenantId": "s3cret"\n' > /tmp/cloud.conf`, run: ccmadmInit + " --provider azure --cloud-config /tmp/cloud.conf", code: 3, want: []string{"read /tmp/cloud.conf: not json: line", "want a mapping of keys to values; for example"}},
	{name: "a missing key", given: `printf '[Global]\nregion=x\n' > /tmp/cloud.conf`, run: openstackInit, code: 3, want: []string{"read /tmp/cloud.conf: missing or empty: Global.auth-url or Global.use-clouds; for example", "auth-url = https://keystone.example.com:5000/v3"}},
	{name: "no cloud config where one is needed", run: ccmadmInit + " --provider openstack", code: 3, want: []string{"provider openstack needs a configuration file: --cloud-config, or cloudConfig.file; for example"}},
	{name: "a cloud config where none is read", given: goodOpenstack, run: ccmadmInit + " --provider hetzner --cloud-config /tmp/cloud.conf", code: 3, want: []string{"provider hetzner reads no configuration file, so /tmp/cloud.conf would have no effect", "ccmadm provider show hetzner"}},
	{name: "an empty cloud config of a cloud", given: ": > /tmp/cloud.conf", run: openstackInit, code: 3, want: []string{"/tmp/cloud.conf is empty"}},
	{name: "no token", run: ccmadmInit + " --provider hetzner", code: 3, want: []string{"needs credential token: the project's API token", "--credential token=FILE", "HCLOUD_TOKEN"}},
	{name: "an empty credential", given: ": > /tmp/token", run: ccmadmInit + " --provider hetzner --credential token=/tmp/token", code: 3, want: []string{"/tmp/token is empty"}},
	{
		name: "credentials that everybody may read", given: goodOpenstack + "chmod 644 /tmp/cloud.conf", run: "ccmadm init phase preflight --config " + kubeadmYAML + " --provider openstack --image-tag v1.36.0 --cloud-config /tmp/cloud.conf",
		code: 0, want: []string{"warning, every user of this machine can read /tmp/cloud.conf (-rw-r--r--): chmod 600 /tmp/cloud.conf", "checks passed"},
	},
	{name: "an unknown field in a profile", given: profile(`imge: {repository: example.com/ccm, tag: v1}`), run: profileInit, code: 3, want: []string{`read profile /tmp/profile.yaml:9: unknown field "imge"`, "docs/reference/profile.md"}},
	{name: "a profile without a rule for its image", given: profile(`image: {repository: example.com/ccm}`), run: profileInit, code: 3, want: []string{"read profile /tmp/profile.yaml:9: image.tag: Required value"}},
	{name: "an unknown value in a profile", given: profile(`image: {repository: example.com/ccm, tag: v1}\nargs:\n- --cluster=${clustername}`), run: profileInit, code: 3, want: []string{"read profile /tmp/profile.yaml:11: args[0]", `no value is called "clustername"; there are`, "clusterName"}},
	{name: "a profile that is no YAML", given: profile(`image: {`), run: profileInit, code: 3, want: []string{"read profile /tmp/profile.yaml", "line 9"}},
	{
		name: "routes without a pod subnet", given: goodOpenstack + "(sed /podSubnet/d " + kubeadmYAML + `; printf -- '---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nroutes: true\n') > /tmp/k.yaml`,
		run: "ccmadm init --config /tmp/k.yaml " + ignore + " --provider openstack --cloud-config /tmp/cloud.conf", code: 3, want: []string{"routes: the cluster has no pod subnet", "networking.podSubnet"},
	},
	{name: "a provider for Services alone", run: ccmadmInit + " --provider kubevip", code: 3, want: []string{"provider kubevip serves Services only: nothing of it takes the uninitialized taint away", "init with another provider, then beside it: ccmadm render --provider kubevip --cluster-name NAME"}},
	{name: "any program without the cloud's name", run: ccmadmInit + " --provider generic --image example.com/ccm:v1", code: 3, want: []string{"provider generic needs --cloud-provider=VALUE", "kind: CloudConfiguration, provider: generic"}},
	{
		name: "any program without an image", given: "(cat " + kubeadmYAML + `; printf -- '---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nprovider: generic\ncontrollerManager: {extraArgs: [--cloud-provider=acme]}\n') > /tmp/k.yaml`,
		run: "ccmadm init --config /tmp/k.yaml " + ignore, code: 3, want: []string{"Manifests: ", "the provider publishes no image: set controllerManager.image (--image)"},
	},
	{
		name:  "a Kubernetes without a release",
		given: profile(`image: {repository: example.com/ccm, tags: {"1.20": v1.20.1}}`), run: profileInit, code: 3,
		want: []string{
			"no release of example.com/ccm for Kubernetes 1.",
			"is known, the nearest is 1.20 (v1.20.1): set controllerManager.version",
		},
	},
	{name: "a mode that would show a secret", given: "echo s3cret > /tmp/token", run: ccmadmInit + " --provider hetzner --mode StaticPod --credential token=/tmp/token", code: 3, want: []string{"mode: provider hetzner runs as DaemonSet or Deployment, not as StaticPod", "--mode DaemonSet"}},
}

// realDMI ends what dmi began.
const realDMI = "umount /sys/class"

// dmi gives the machine firmware tables, of which a namespace has none.
func dmi(vendor, product string) string {
	return "mount -t tmpfs dmi /sys/class && mkdir -p /sys/class/dmi/id && echo '" + vendor + "' > /sys/class/dmi/id/sys_vendor && echo '" + product + "' > /sys/class/dmi/id/product_name"
}

// profile writes one of the user's own. The lines of it are the ninth and what follows.
func profile(lines string) string {
	return `printf '` + profileHead + lines + `\n' > /tmp/profile.yaml`
}
