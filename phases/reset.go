package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// Reset takes a machine out of its cluster: `kubeadm reset`, and then what ccmadm has written on the machine. Objects
// in the cluster are left: other machines use them. Files go last, so that a reset that was cut short can be repeated.
func Reset(ctx context.Context, d *Data) error {
	d = d.in("reset")
	if os.Geteuid() != 0 {
		return &finding.Error{Code: finding.ExitPreflight, Err: errors.New("reset: not root")}
	}
	args := []string{"reset"}
	if d.Force {
		args = append(args, "--force")
	}
	args = append(d.kubeadmFlags(args), d.KubeadmArgs...)
	if err := d.stream(kubeadm.Command(ctx, args...), args); err != nil {
		return err
	}
	if err := d.removeUnit(ctx); err != nil {
		return err
	}
	credentials, err := filesIn(CloudConfigDir)
	if err != nil {
		return err
	}
	for _, path := range append(credentials, CCMManifest, CCMKubeconfig, KubeletEnvFile, RecordFile, KubeadmConfig) {
		if err := d.remove(path); err != nil {
			return err
		}
	}
	for _, dir := range []string{CloudConfigDir, ConfigDir} {
		if err := d.removeEmptyDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// NewReset returns the data of a reset, which reads no configuration: it must work on a machine that is half done.
func NewReset(o Options, s Streams, version string) *Data {
	d := &Data{Options: o, Streams: s, Version: version, Files: diskFiles{}}
	if o.DryRun {
		d.Files = printFiles{out: s.Out}
	}
	return d
}

// removeUnit takes the kubelet's drop-in and the boot-time unit away.
func (d *Data) removeUnit(ctx context.Context) error {
	if _, err := os.Stat(KubeletUnit); err == nil {
		if err := d.systemctl(ctx, "disable", "--quiet", filepath.Base(KubeletUnit)); err != nil {
			return err
		}
	}
	var any bool
	for _, path := range []string{KubeletUnit, KubeletDropIn} {
		_, err := os.Stat(path)
		any = any || err == nil
		if err := d.remove(path); err != nil {
			return err
		}
	}
	if !any {
		return nil
	}
	if err := d.removeEmptyDir(filepath.Dir(KubeletDropIn)); err != nil {
		return err
	}
	return d.systemctl(ctx, "daemon-reload")
}

func (d *Data) remove(path string) error {
	removed, err := d.Files.Remove(path)
	if err != nil {
		return err
	}
	if removed && !d.DryRun {
		d.Sayf("%s removed", path)
	}
	return nil
}

// removeEmptyDir leaves a directory that holds something we did not write.
func (d *Data) removeEmptyDir(dir string) error {
	if d.DryRun {
		return nil
	}
	left, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for files that are not ours: %w", err)
	}
	if len(left) > 0 {
		d.Sayf("%s is kept: %s is not ours", dir, left[0].Name())
		return nil
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// filesIn lists a flat directory; files that keep a previous version go with the file itself.
func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list files to remove: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if e.Name()[0] != '.' {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}
