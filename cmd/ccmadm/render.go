package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// quotedArg is an argument with a comma in a list of arguments.
const quotedArg = `"--controllers=a,b"`

// renderer is what render and images have in common: a profile, and the values to fill it with.
type renderer struct {
	settings   config.CloudConfiguration
	mode       string
	kubernetes string
	podSubnet  string
	endpoint   string
	mirror     string
	routes     bool
	nodeAgent  bool
	lifecycle  bool
	serving    bool

	credentials []string

	monitoring       bool
	monitoringLabels map[string]string
}

func (r *renderer) declare(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.settings.Provider, "provider", "", "built-in provider")
	flags.StringVar(&r.settings.Profile, "profile", "", "file with a provider profile of your own")
	flags.StringVar(&r.kubernetes, "kubernetes-version", minors.Newest(), "version of the cluster")
	flags.StringVar(&r.settings.ControllerManager.Image, "image", "", "cloud-controller-manager image instead of the profile's")
	flags.StringVar(&r.settings.ControllerManager.Version, "image-tag", "", "tag instead of the profile's")
	flags.BoolVar(&r.serving, "serving-certificates", false, "approve the serving certificates that kubelets with serverTLSBootstrap ask for")
	certificates := &r.settings.ServingCertificates
	flags.StringSliceVar(&certificates.Names, "serving-certificate-names", nil, "DNS names, or *.DOMAIN, that Nodes may have without a proof")
	flags.StringSliceVar(&certificates.AddressRanges, "serving-certificate-ranges", nil, "CIDRs in which addresses of Nodes are accepted for them")
	flags.StringVar(&r.mirror, "image-repository", "", "mirror that has the images, as kubeadm's --image-repository")
}

func (r *renderer) values(p *templates.Profile, files map[string][]byte) templates.Values {
	mode := templates.Mode(r.mode)
	if mode == "" {
		mode = p.Modes[0]
	}
	return templates.Values{
		Mode:                mode,
		Version:             version,
		Image:               r.settings.ControllerManager.Image,
		ImageTag:            r.settings.ControllerManager.Version,
		ImageRepository:     r.mirror,
		ClusterName:         r.settings.ClusterName,
		KubernetesVersion:   r.kubernetes,
		Endpoint:            r.endpoint,
		PodSubnet:           r.podSubnet,
		Routes:              r.routes,
		NodeLifecycle:       r.lifecycle,
		NodeAgent:           r.nodeAgent || r.routes && p.NodeAgent != nil,
		ServingCertificates: r.serving,
		ServingRanges:       strings.Join(r.settings.ServingCertificates.AddressRanges, ","),
		ServingNames:        r.settings.ServingCertificates.Names,
		Files:               slices.Sorted(maps.Keys(files)),
		ConfigHash:          manifests.ConfigHash(files),
		ExtraArgs:           r.settings.ControllerManager.ExtraArgs,
	}
}

func newRender(s workflow.Streams) *cobra.Command {
	var r renderer
	var format output.Format
	var dir string
	cmd := &cobra.Command{
		Use:   "render --provider NAME --cluster-name NAME",
		Short: "Print the manifests for a provider, without a cluster",
		Long: `Prints the RBAC objects, the Secret if you pass files, and the workload, ready for kubectl apply --server-side. In mode
StaticPod the last document is the static pod, for ` + machine.CCMManifest + `.
With -o kustomize, it writes one file per object and a kustomization.yaml to --output-dir.
With -o helm, it writes the Helm chart of all providers to --output-dir; they are values of the chart.
With --monitoring, it prints ServiceMonitor, PodMonitors, PrometheusRule and dashboards as well; without --provider, only these.`,
		Example: `  ccmadm render --provider aws --cluster-name ber1 | kubectl apply --server-side -f -
  ccmadm render --provider aws --cluster-name ber1 -o kustomize --output-dir ccm`,
		Args: usage.NoArgs,
		RunE: func(asked *cobra.Command, _ []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			if format.Is("helm") {
				return writeChart(s, asked.Flags(), dir)
			}
			objects, pod, err := r.renderAll(s)
			if err != nil {
				return err
			}
			if format.Is("kustomize") {
				return writeKustomization(s, dir, objects, pod)
			}
			return printObjects(s, objects, pod)
		},
	}
	r.declare(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.mode, "mode", "", "StaticPod, DaemonSet or Deployment (default: the profile's first)")
	flags.StringVar(&r.settings.ClusterName, "cluster-name", "", "name given to the provider; no two clusters in one cloud may share it")
	flags.StringVar(&r.settings.CloudConfig.File, "cloud-config", "", "the provider's configuration file, for the Secret")
	flags.StringArrayVar(&r.credentials, "credential", nil, "KEY=FILE or KEY=env:NAME, for the Secret; may be repeated")
	flags.StringSliceVar(&r.settings.ControllerManager.ExtraArgs, "extra-args", nil,
		"arguments of the form --flag=value that win over the profile's; commas separate them, but in double quotes: '"+quotedArg+"'")
	flags.BoolVar(&r.routes, "routes", false, "let the provider program routes to pods; needs --pod-network-cidr")
	flags.BoolVar(&r.lifecycle, "node-lifecycle", true, "run the controller that deletes the Nodes of machines that are gone")
	flags.BoolVar(&r.nodeAgent, "node-agent", false, "run the provider's agent on each node, too")
	flags.StringVar(&r.podSubnet, "pod-network-cidr", "", "the cluster's pod CIDR")
	flags.StringVar(&r.endpoint, "control-plane-endpoint", "", "URL by which pods reach the API server (default: the service, which takes kube-proxy)")
	flags.BoolVar(&r.monitoring, "monitoring", false, "print what prometheus-operator and Grafana read, too")
	flags.StringToStringVar(&r.monitoringLabels, "monitoring-labels", nil, "labels by which your Prometheus selects ServiceMonitors and rules, as release=NAME")
	format.Declare(cmd, output.YAML, "kustomize", "helm")
	flags.StringVar(&dir, "output-dir", "", "directory for -o kustomize and -o helm; it is made, and must be empty")
	return cmd
}

// renderAll returns what was asked for: the provider's objects, monitoring's, or both.
func (r *renderer) renderAll(s workflow.Streams) (objects []*manifests.Object, pod []byte, err error) {
	if len(r.monitoringLabels) > 0 && !r.monitoring {
		return nil, nil, finding.Usagef("--monitoring-labels needs --monitoring")
	}
	for key, value := range r.monitoringLabels {
		problems := append(content.IsLabelKey(key), content.IsLabelValue(value)...)
		if len(problems) > 0 {
			return nil, nil, finding.Usagef("read --monitoring-labels: %s=%s: %s", key, value, strings.Join(problems, "; "))
		}
	}
	if !r.monitoring || r.settings.Provider != "" || r.settings.Profile != "" {
		if objects, pod, err = r.render(s); err != nil {
			return nil, nil, err
		}
	}
	if !r.monitoring {
		return objects, pod, nil
	}
	watched, err := manifests.Monitoring(r.monitoringLabels)
	return append(objects, watched...), pod, err
}

// render returns the objects and, in mode StaticPod, the manifest.
func (r *renderer) render(s workflow.Streams) ([]*manifests.Object, []byte, error) {
	p, err := providers.Profile(&r.settings)
	if err != nil {
		return nil, nil, err
	}
	if w := p.Warning(); w != "" {
		fmt.Fprintf(s.Err, "ccmadm: warning: %s\n", w)
	}
	if r.settings.ClusterName == "" {
		return nil, nil, finding.Usagef("--cluster-name is missing; clusters of one name in one cloud take each other's load balancers for their own")
	}
	if err := r.validate(); err != nil {
		return nil, nil, err
	}
	if r.settings.Credentials, err = providers.Credentials(r.credentials); err != nil {
		return nil, nil, err
	}
	files, err := manager.ReadFiles(&r.settings, p, s.Getenv)
	if err != nil {
		return nil, nil, err
	}
	v := r.values(p, files)
	if missing := r.missing(p, v.Mode, files); missing != nil && len(files) > 0 {
		return nil, nil, finding.Usagef("%w", missing)
	} else if missing != nil {
		v.Files = p.RequiredFiles()
		fmt.Fprintf(s.Err, "ccmadm: note: the Secret %s is left out: %v\n", v1alpha1.CloudConfigName, missing)
	}
	rbac, err := manifests.RBAC(p, v)
	if err != nil {
		return nil, nil, finding.Usagef("%w", err)
	}
	objects := rbac
	if len(files) > 0 {
		secret, err := manifests.CloudConfigSecret(p, files)
		if err != nil {
			return nil, nil, finding.Usagef("%w", err)
		}
		objects = append(objects, secret...)
	}
	workload, err := manifests.Addon(p, v)
	if err != nil {
		return nil, nil, finding.Usagef("%w", err)
	}
	objects = append(objects, workload...)
	agent, err := r.renderNodeAgent(s, p, v)
	if err != nil {
		return nil, nil, err
	}
	objects = append(objects, agent...)
	if v.Mode != templates.StaticPod {
		return objects, nil, nil
	}
	pod, err := manifests.StaticPod(p, v)
	if err != nil {
		return nil, nil, finding.Usagef("%w", err)
	}
	return objects, pod, nil
}

// missing says what the provider would miss in its files. A static pod reads them on its machine, which may have more.
func (r *renderer) missing(p *templates.Profile, mode templates.Mode, files map[string][]byte) error {
	err := p.CheckConfig(files, r.settings.CloudConfig.File)
	if mode == templates.StaticPod {
		return err
	}
	return errors.Join(err, p.CheckNamed(files))
}

func (r *renderer) validate() error {
	errs := r.settings.Validate()
	if len(errs) == 0 {
		return nil
	}
	failed := finding.Usagef("validate flags: %w", errs.ToAggregate())
	if len(r.settings.ControllerManager.ExtraArgs) > 1 {
		return failed.WithHint("commas separate --extra-args, but in double quotes: --extra-args='%s'", quotedArg)
	}
	return failed
}

// renderNodeAgent leaves out the agents' key, which no output shows.
func (r *renderer) renderNodeAgent(s workflow.Streams, p *templates.Profile, v templates.Values) ([]*manifests.Object, error) {
	if !v.NodeAgent {
		return nil, nil
	}
	objects, err := manifests.NodeAgent(p, v)
	if err != nil {
		return nil, finding.Usagef("%w", err)
	}
	fmt.Fprintf(s.Err, "ccmadm: note: the Secret %[1]s is left out: head -c %[2]d /dev/urandom | kubectl -n %[3]s create secret generic %[1]s --from-file=%[4]s=/dev/stdin\n",
		v1alpha1.AgentName, manifests.HeartbeatKeySize, v1alpha1.Namespace, v1alpha1.HeartbeatKey)
	return objects, nil
}

func printObjects(s workflow.Streams, objects []*manifests.Object, pod []byte) error {
	var b bytes.Buffer
	for _, o := range objects {
		data, err := encode(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "---\n%s", data)
	}
	if pod != nil {
		fmt.Fprintf(&b, "---\n# %s on each control plane; the objects above go into the cluster.\n%s", machine.CCMManifest, pod)
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

func encode(o *manifests.Object) ([]byte, error) {
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return data, nil
}
