package phases

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/templates"
)

// Files of a machine that ccmadm writes or that kubeadm writes and ccmadm reads.
const (
	ConfigDir        = "/etc/ccmadm"
	KubeadmConfig    = ConfigDir + "/kubeadm.yaml"
	RecordFile       = ConfigDir + "/record.yaml"
	KubeletEnvFile   = ConfigDir + "/kubelet.env"
	KubeletDropIn    = "/etc/systemd/system/kubelet.service.d/20-ccmadm.conf"
	KubeletUnit      = "/etc/systemd/system/ccmadm-kubelet.service"
	CCMKubeconfig    = templates.Kubeconfig
	CCMManifest      = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"
	CloudConfigDir   = templates.ConfigDir
	adminConf        = "/etc/kubernetes/admin.conf"
	superAdminConf   = "/etc/kubernetes/super-admin.conf"
	kubeletConf      = "/etc/kubernetes/kubelet.conf"
	apiServerPod     = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	kubeletConfig    = "/var/lib/kubelet/config.yaml"
	defaultCertsDir  = "/etc/kubernetes/pki"
	defaultBindPort  = 6443
	staticPodManager = v1alpha1.StaticPodUser
)

// Options is the command line of one run.
type Options struct {
	// Role is Init or Join.
	Role kubeadm.Role
	// Single is set when one phase was asked for by name.
	Single bool
	// ConfigFile holds kubeadm's documents, ours, or both.
	ConfigFile string
	// Flags are the settings given as flags; they win over every file.
	Flags v1alpha1.CloudConfiguration
	// KubeadmArgs are kubeadm's own flags and arguments.
	KubeadmArgs []string
	// Kubeconfig replaces the administrator's, or on a worker the kubelet's.
	Kubeconfig string
	// IgnorePreflightErrors are names of checks whose failure is only a warning; "all" means each.
	IgnorePreflightErrors []string
	// DryRun shows what would change, and changes nothing.
	DryRun bool
	// Force replaces a file that was edited by hand.
	Force bool
	// InstallUnit asks the kubelet phase for a unit that runs it at each boot.
	InstallUnit bool
	// CheckFiles looks into the files of a provider that the caller knows from inside, by their names in the pod; may be
	// nil.
	CheckFiles func(provider string, files map[string][]byte) error
	// Output is "text" or "json", for the progress of waiting.
	Output string
}

// Streams connect a run to its caller.
type Streams struct {
	// In answers the question that kubeadm reset asks.
	In io.Reader
	// Out takes the result: the node table, the join command, a dry run's diff.
	Out io.Writer
	// Err takes errors and hints.
	Err io.Writer
	// Env reads the environment.
	Env func(string) string
}

// Data is what every phase is given. It is built once and then only read.
type Data struct {
	Options
	Streams
	// Version is ccmadm's own.
	Version string
	// Kubeadm is the user's kubeadm configuration with the flags folded in.
	Kubeadm *kubeadm.File
	// KubeadmRest are the kubeadm flags that go beside --config.
	KubeadmRest []string
	// Files writes, or in a dry run shows.
	Files Files

	kubeadmVersion func() (*version.Version, error) // asks once
	asked          askedMetadata                    // once
	cloud          *v1alpha1.CloudConfiguration     // from the user's file; nil when there was none
	phase          string
	ctx            context.Context //nolint:containedctx // the workflow runner hands phases nothing but data
}

// New reads the configuration that the options name. It changes nothing.
func New(ctx context.Context, o Options, s Streams, version string) (*Data, error) {
	d := &Data{Options: o, Streams: s, Version: version, Files: diskFiles{}, ctx: ctx}
	d.Flags.Resolve(".")
	if errs := append(o.Flags.Validate(), KnownProvider(&o.Flags)...); len(errs) > 0 {
		return nil, finding.Usagef("validate flags: %w", errs.ToAggregate())
	}
	if err := d.loadKubeadm(); err != nil {
		return nil, err
	}
	d.adoptKubeadmFlags()
	d.kubeadmVersion = askOnce(ctx)
	if d.DryRun {
		d.Files = printFiles{out: s.Out}
	}
	return d, nil
}

// loadKubeadm takes the user's file; for a single phase without one, what an earlier phase has written.
func (d *Data) loadKubeadm() error {
	path := d.ConfigFile
	if path == "" && d.Single && len(d.KubeadmArgs) == 0 {
		if _, err := os.Stat(KubeadmConfig); err == nil {
			path = KubeadmConfig
		}
	}
	var data []byte
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return finding.Usagef("read configuration: %w", err)
		}
	}
	file, err := kubeadm.Parse(path, data)
	if err != nil {
		return &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	if doc, line, ok := file.TakeCloudConfiguration(); ok {
		if d.cloud, err = v1alpha1.DecodeCloudConfiguration(path, line, doc, KnownProvider); err != nil {
			return err
		}
	}
	if d.KubeadmRest, err = kubeadm.FoldFlags(d.Role, file, d.KubeadmArgs); err != nil {
		return &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	d.Kubeadm = file
	return nil
}

// adoptKubeadmFlags takes the flags that mean the same to ccmadm: a --dry-run behind the -- is for both.
func (d *Data) adoptKubeadmFlags() {
	var dryRun, ignored []string
	d.KubeadmRest, dryRun = kubeadm.TakeFlag(d.KubeadmRest, "dry-run")
	d.KubeadmRest, ignored = kubeadm.TakeFlag(d.KubeadmRest, "ignore-preflight-errors")
	d.DryRun = d.DryRun || slices.Contains(dryRun, "true")
	d.IgnorePreflightErrors = append(d.IgnorePreflightErrors, ignored...)
}

// Settings returns what holds on this machine: flags over the user's file over what is known already. What is known
// already is, on a machine that joins, the cluster's record; for a single phase, what an earlier phase wrote down.
func (d *Data) Settings(ctx context.Context) (*v1alpha1.CloudConfiguration, error) {
	settings := &v1alpha1.CloudConfiguration{}
	if d.Single || d.Role == kubeadm.RoleJoin {
		rec, err := d.knownRecord(ctx)
		if err != nil {
			return nil, err
		}
		if rec != nil {
			settings.Override(&rec.Configuration)
		}
	}
	if d.cloud != nil {
		settings.Override(d.cloud)
	}
	settings.Override(&d.Flags)
	settings.Default()
	return settings, d.settle(ctx, settings)
}

// Sayf prints a line of progress, as kubeadm does.
func (d *Data) Sayf(format string, args ...any) {
	fmt.Fprintf(d.progress(), "[%s] %s\n", d.phase, fmt.Sprintf(format, args...))
}

// progress is where lines for people go: not into the way of a program that reads JSON.
func (d *Data) progress() io.Writer {
	if d.Output == "json" {
		return d.Err
	}
	return d.Out
}

// write writes a file and says what became of it.
func (d *Data) write(f File) error {
	changed, err := d.Files.Write(f)
	if err != nil {
		return err
	}
	d.sayChange(changed, f.Path)
	return nil
}

func (d *Data) sayChange(changed bool, what string) {
	switch {
	case !changed:
		d.Sayf("%s unchanged", what)
	case !d.DryRun:
		d.Sayf("%s written", what)
	}
}

// in returns the data for a phase by name.
func (d *Data) in(phase string) *Data {
	c := *d
	c.phase = phase
	return &c
}
