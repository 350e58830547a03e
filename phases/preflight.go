package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"github.com/ccmadm/ccmadm/manifests"
)

// Check is one thing that must hold before anything is changed.
type Check struct {
	// Name is what --ignore-preflight-errors takes.
	Name string
	// Run returns what is wrong, with a hint where there is one.
	Run func(context.Context, *Data) error
}

func initPreflight() Phase {
	return Phase{
		Name:  "preflight",
		Short: "Check that this machine can become a control plane in external cloud mode",
		Long:  "Reads the host, the kubeadm configuration, the profile, credentials, and every file that feeds the kubelet's command line. Writes nothing.",
		Run: func(ctx context.Context, d *Data) error {
			return runChecks(ctx, d, slices.Concat([]Check{{"Provider", checkProvider}}, commonChecks(), nodeChecks(), []Check{
				{"CloudConfig", checkCloudConfig},
				{"StaticPodManifest", checkManifestUntouched},
				{"Manifests", checkManifests},
			}))
		},
	}
}

func joinPreflight() Phase {
	return Phase{
		Name:  "preflight",
		Short: "Check that this machine can join in external cloud mode",
		Long:  "Reads the host, the kubeadm configuration, and every file that feeds the kubelet's command line. Writes nothing.",
		Run: func(ctx context.Context, d *Data) error {
			return runChecks(ctx, d, append(commonChecks(), Check{"Discovery", checkDiscovery}))
		},
	}
}

func commonChecks() []Check {
	return []Check{
		{"IsPrivilegedUser", checkRoot},
		{"KubeadmVersion", checkKubeadm},
		{"KubeletInUse", checkKubeletInUse},
		{"KubeletFlags", checkKubeletFlags},
		{"KubeadmConfig", checkKubeadmConfig},
		{"NodeIP", checkNodeIP},
		{"Writable", checkWritable},
	}
}

// runChecks runs all of them and fails once, with every failure by its name. What several checks need and none gets,
// such as a provider that is not found, is told by the first of them only.
func runChecks(ctx context.Context, d *Data, checks []Check) error {
	var failed []error
	var hints []string
	told := map[string]bool{}
	for _, c := range checks {
		err := c.Run(ctx, d)
		if err == nil {
			continue
		}
		if d.ignores(c.Name) {
			d.Sayf("warning, %s: %v", c.Name, err)
			continue
		}
		if told[err.Error()] {
			continue
		}
		told[err.Error()] = true
		failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
		var known *finding.Error
		if errors.As(err, &known) && known.Hint != "" && !slices.Contains(hints, known.Hint) {
			hints = append(hints, known.Hint)
		}
	}
	if len(failed) == 0 {
		d.Sayf("%d checks passed", len(checks))
		return nil
	}
	hints = append(hints, "nothing was changed; --ignore-preflight-errors=NAME makes a check a warning")
	return &finding.Error{Code: finding.ExitPreflight, Err: fmt.Errorf("preflight: %w", errors.Join(failed...)), Hint: strings.Join(hints, "\n")}
}

func (d *Data) ignores(check string) bool {
	return slices.ContainsFunc(d.IgnorePreflightErrors, func(name string) bool {
		return strings.EqualFold(name, check) || strings.EqualFold(name, "all")
	})
}

func checkRoot(context.Context, *Data) error {
	if os.Geteuid() != 0 {
		return finding.Preflightf("not root").WithHint("the same command behind sudo")
	}
	return nil
}

func checkKubeadm(_ context.Context, d *Data) error {
	v, err := d.kubeadmVersion()
	if err != nil {
		return err
	}
	return kubeadm.CheckVersion(v)
}

// checkKubeletInUse keeps off machines that are nodes already, unless it was ccmadm that began: then this is a re-run.
func checkKubeletInUse(ctx context.Context, d *Data) error {
	if d.resuming() {
		return nil
	}
	if _, err := os.Stat(kubeletConf); err == nil {
		return finding.Usagef("%s exists: this machine is registered with a cluster already", kubeletConf).
			WithHint("`ccmadm reset` (or `kubeadm reset`) takes it out of that cluster")
	}
	if path := leftByKubeadm(); path != "" {
		return finding.Usagef("%s exists: this machine runs a control plane, or did", path).
			WithHint("`ccmadm reset` (or `kubeadm reset`) removes it")
	}
	if _, err := os.Stat(kubeletConfig); err == nil && serviceActive(ctx, "kubelet") {
		return finding.Usagef("the kubelet is running with %s", kubeletConfig).
			WithHint("`kubeadm reset` stops it, if this machine's cluster is to be given up")
	}
	return nil
}

// resuming tells whether an earlier run of the same command came at least as far as writing kubeadm's configuration.
func (d *Data) resuming() bool {
	data, err := os.ReadFile(KubeadmConfig)
	if err != nil {
		return false
	}
	file, err := kubeadm.Parse(KubeadmConfig, data)
	return err == nil && file.CanDiscover() == (d.Role == kubeadm.RoleJoin)
}

// checkKubeletFlags refuses flags that would win over what ccmadm sets, in any file that feeds the kubelet.
func checkKubeletFlags(_ context.Context, _ *Data) error {
	uses, err := FindKubeletFlags("/", "cloud-provider", "cloud-config")
	if err != nil {
		return err
	}
	var wrong []error
	for _, u := range uses {
		switch {
		case u.Flag == "cloud-config":
			wrong = append(wrong, fmt.Errorf("%s: the kubelet refuses --cloud-config since 1.34; remove it", u))
		case u.Value != "external":
			wrong = append(wrong, fmt.Errorf("%s: must be \"external\" or absent", u))
		}
	}
	return errors.Join(wrong...)
}

// checkKubeadmConfig finds what stands in the way of external mode in the user's own file, on a copy of it.
func checkKubeadmConfig(_ context.Context, d *Data) error {
	v, err := d.kubeadmVersion()
	if err != nil {
		return nil //nolint:nilerr // another check says so
	}
	file, err := kubeadm.Parse(d.ConfigFile, d.Kubeadm.Bytes())
	if err != nil {
		return err
	}
	_, err = file.SetExternal(d.Role, kubeadm.KubeletFlags{}, int(v.Minor()))
	return err
}

func checkNodeIP(ctx context.Context, d *Data) error {
	settings, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	_, err = d.nodeIP(ctx, settings)
	return err
}

// checkWritable finds a read-only or full file system before the first file is half done. It asks the kernel and
// leaves no trace, since a dry run must not.
func checkWritable(context.Context, *Data) error {
	const enough = 1 << 20 // bytes; everything that ccmadm writes is below 100 kB
	var wrong []error
	for _, dir := range []string{ConfigDir, filepath.Dir(CCMKubeconfig), filepath.Dir(CCMManifest), filepath.Dir(KubeletDropIn)} {
		existing := dir
		for {
			if _, err := os.Stat(existing); err == nil {
				break
			}
			existing = filepath.Dir(existing)
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(existing, &fs); err != nil {
			wrong = append(wrong, fmt.Errorf("look at the file system of %s: %w", dir, err))
			continue
		}
		const readOnly = 1 // ST_RDONLY
		if fs.Flags&readOnly != 0 {
			wrong = append(wrong, fmt.Errorf("%s is on a read-only file system", dir))
		} else if free := fs.Bavail * uint64(fs.Bsize); free < enough {
			wrong = append(wrong, fmt.Errorf("%s: the disk is full (%d bytes left)", dir, free))
		}
	}
	return errors.Join(wrong...)
}

func checkCloudConfig(ctx context.Context, d *Data) error {
	settings, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	d.warnReadable(settings)
	_, err = d.cloudFiles(ctx)
	return err
}

// checkManifests makes all that later phases write or apply, and keeps none of it: an image that nobody knows or a
// setting without which the provider cannot run must not show when half a cluster is there.
func checkManifests(ctx context.Context, d *Data) error {
	settings, err := d.Settings(ctx)
	if err != nil || settings.Mode == v1alpha1.ModeManual {
		return err
	}
	trial := *d
	trial.DryRun = true // there is no CA yet that names the cluster, and no endpoint
	profile, values, err := trial.valuesWithFiles(ctx)
	if err != nil {
		return err
	}
	if values.Endpoint, err = trial.endpointForPods(); err != nil {
		return err
	}
	if settings.Mode == v1alpha1.ModeStaticPod {
		if _, err = manifests.StaticPod(profile, values); err != nil {
			return err
		}
	}
	_, err = manifests.Addon(profile, values)
	return err
}

func checkDiscovery(_ context.Context, d *Data) error {
	if !d.Kubeadm.CanDiscover() {
		return finding.Usagef("no cluster to join").
			WithHint("ccmadm join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash sha256:HASH, as `ccmadm init` printed it")
	}
	return nil
}
