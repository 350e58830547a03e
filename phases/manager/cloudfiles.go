package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// OfAnother tells whether a Secret has the files of another provider.
func OfAnother(secret *corev1.Secret, provider string) bool {
	of := secret.Annotations[v1alpha1.FilesOfAnnotation]
	return of != "" && of != provider
}

// CloudFiles are the provider's files, for reading only. They are read once: all phases of a run go by the same ones.
func CloudFiles(ctx context.Context, r *workflow.Run, s *settings.Settings) (map[string][]byte, error) {
	return r.Cache.Files.Get(func() (map[string][]byte, error) {
		files, err := readCloudFiles(ctx, r, s)
		if err != nil || len(s.Moved) == 0 {
			return files, err
		}
		all := map[string][]byte{}
		maps.Copy(all, files)
		maps.Copy(all, s.Moved) // an earlier release may have written newer ones than the Secret has
		return all, nil
	})
}

// readCloudFiles reads them from where the user's configuration says they are. A second run on a machine that has its
// cluster, and that names none, goes by those that the first one stored.
func readCloudFiles(ctx context.Context, r *workflow.Run, s *settings.Settings) (map[string][]byte, error) {
	stored := storedFiles
	switch {
	case s.ChangesProvider(): // those in use are for another cloud
		stored = func(context.Context, *workflow.Run, *settings.Settings) (map[string][]byte, error) { return nil, nil }
	case r.Existing && s.Recorded != nil:
		stored = existingFiles
	}
	files, err := stored(ctx, r, s)
	inventory := inventoryFile(r, s)
	if files != nil {
		inventory = r.Said.Inventory // those in use point at theirs
	}
	named := r.Existing && (r.Said.CloudConfig.File != "" || len(r.Said.Credentials) > 0)
	if err != nil || files != nil && inventory == "" && !named {
		return files, err
	}
	given := files == nil || named // by this run: those in use are not
	if files == nil {
		if files, err = ReadFiles(&s.CloudConfiguration, s.Profile, r.Getenv); err != nil {
			return nil, err
		}
	}
	checked := files
	if inventory != "" {
		if checked, err = addInventory(files, s.Profile, inventory); err != nil {
			return nil, err
		}
	}
	wrong := s.Profile.CheckConfig(files, s.CloudConfig.File)
	if given && s.Mode != config.ModeManual { // that manager is the user's own: it reads files where the user has put them
		elsewhere, err := othersCredentials(r.Env, s)
		if err != nil {
			return nil, err
		}
		wrong = errors.Join(wrong, s.Profile.CheckNamed(files, elsewhere...))
	}
	if wrong != nil {
		return nil, &finding.Error{Code: finding.ExitUsage, Err: wrong}
	}
	if r.CheckFiles != nil {
		if err := r.CheckFiles(s.Profile.Name, checked); err != nil {
			return nil, &finding.Error{Code: finding.ExitUsage, Err: err}
		}
	}
	return files, nil
}

// othersCredentials are those that a static pod finds on this machine, and that ccmadm has not written: its own it removes
// where they are no longer given.
func othersCredentials(env *workflow.Env, s *settings.Settings) ([]string, error) {
	if s.Mode != config.ModeStaticPod {
		return nil, nil
	}
	state, err := workflow.MachineState(env)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, c := range s.Profile.Credentials {
		path := filepath.Join(machine.CloudConfigDir, c.Key)
		there, err := env.Machine.Exists(path)
		if err != nil {
			return nil, err
		}
		if there && !slices.Contains(state.Files, path) {
			keys = append(keys, c.Key)
		}
	}
	return keys, nil
}

// CheckCloudConfig reads the provider's files, and checks them as far as the profile and the caller know them.
func CheckCloudConfig(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	record.WarnReadable(r.Env, &s.CloudConfiguration)
	files, err := CloudFiles(ctx, r, s)
	if err != nil {
		return err
	}
	warnUnused(r, s, files)
	if err := record.RefuseLostCredentials(r.Host, s, files); err != nil {
		return err
	}
	if done, err := workflow.KubeadmFinished(r.Host); err != nil || !done && !r.Existing { // there is no cluster yet
		return err
	}
	return checkInventory(ctx, r, s)
}

// warnUnused names the provider's variables in the environment that a run ignores, since it goes by the files that are in use: an
// administrator who sets one expects that it replaces the credential.
func warnUnused(r *workflow.Run, s *settings.Settings, files map[string][]byte) {
	names := s.Profile.CredentialEnv()
	for _, key := range slices.Sorted(maps.Keys(names)) {
		value := strings.TrimSpace(r.Getenv(names[key]))
		named := func(c config.Credential) bool { return c.Key == key }
		if value == "" || value == strings.TrimSpace(string(files[key])) || slices.ContainsFunc(r.Said.Credentials, named) {
			continue
		}
		r.Sayf("warning, environment variable %s has no effect on an existing cluster: `ccmadm apply -f FILE` with "+
			"`credentials: [{key: %s, env: %[1]s}]` applies it", names[key], key)
	}
}

// storedFiles are what a second run goes by that names no file: the environment of whoever runs it may be for another
// cluster. Where the Secret is gone, those that the static pod reads on this machine are the last copy. What it names
// corrects them until this machine's Node has come through, and must be the same from then on; from
// then on a phase by itself goes by those in use, too.
func storedFiles(ctx context.Context, r *workflow.Run, s *settings.Settings) (map[string][]byte, error) {
	if s.Recorded == nil || r.Role != kubeadm.RoleInit {
		return nil, nil
	}
	named := r.Said.CloudConfig.File != "" || len(r.Said.Credentials) > 0
	lives, err := record.Established(ctx, r)
	if err != nil || !lives && (named || r.Single) {
		return nil, err
	}
	files, err := keptFiles(ctx, r.Env, s)
	if err != nil {
		return nil, finding.Refusedf("find the provider's files that are in use: %w", err).WithHint("nothing was changed")
	}
	if named && files != nil {
		return files, refuseOtherFiles(r, s, files)
	}
	return files, nil
}

// refuseOtherFiles compares what this run names with what is in use: the files of the first day would undo what has
// been changed since.
func refuseOtherFiles(r *workflow.Run, s *settings.Settings, inUse map[string][]byte) error {
	named, err := namedFiles(r, s)
	if err != nil {
		return err
	}
	pointed := maps.Clone(named)
	if path := inventoryFile(r, s); path != "" {
		if _, err := addInventory(pointed, s.Profile, path); err != nil {
			return err
		}
	}
	var differ []string
	for _, key := range slices.Sorted(maps.Keys(named)) {
		if !bytes.Equal(named[key], inUse[key]) && !bytes.Equal(pointed[key], inUse[key]) {
			differ = append(differ, key)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return finding.Refusedf("init with the provider's %s: what is in use in the cluster is another one",
		strings.Join(differ, ", ")).
		WithHint("leave the files out: those of the cluster hold; `ccmadm apply -f FILE` with cloudConfig and credentials " +
			"replaces them. Nothing was changed")
}

// keptFiles are those of the Secret, or else those that the static pod reads on this machine.
func keptFiles(ctx context.Context, env *workflow.Env, s *settings.Settings) (map[string][]byte, error) {
	files, err := FetchCloudFiles(ctx, env, s)
	if err != nil || files != nil {
		return files, err
	}
	state, err := workflow.MachineState(env)
	if err != nil {
		return nil, err
	}
	for _, path := range state.Files {
		data, err := env.Machine.Read(path)
		if err != nil {
			return nil, fmt.Errorf("read the provider's files that are in use: %w", err)
		}
		if files == nil {
			files = map[string][]byte{}
		}
		files[filepath.Base(path)] = data
	}
	return files, nil
}

// ReadFiles returns the provider's configuration and credentials by the name of the file they become in the pod. A
// credential that is not named comes from the environment variable that the provider itself would read, if that is set.
func ReadFiles(c *config.CloudConfiguration, profile *templates.Profile, env func(string) string) (map[string][]byte, error) {
	files, err := readNamed(c, profile, env)
	if err != nil {
		return nil, err
	}
	for key, name := range profile.CredentialEnv() {
		if value := env(name); files[key] == nil && value != "" {
			files[key] = []byte(value)
		}
	}
	return files, nil
}

// namedFiles are those that this run names.
func namedFiles(r *workflow.Run, s *settings.Settings) (map[string][]byte, error) {
	said := config.CloudConfiguration{CloudConfig: r.Said.CloudConfig, Credentials: r.Said.Credentials}
	return readNamed(&said, s.Profile, r.Getenv)
}

// readNamed reads what the configuration names, and nothing else.
func readNamed(c *config.CloudConfiguration, profile *templates.Profile, env func(string) string) (map[string][]byte, error) {
	files := map[string][]byte{}
	read := func(key, path string) error {
		data, err := settings.ReadFile("cloud config", path)
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return finding.Usagef("read cloud config: %s is empty", path)
		}
		files[key] = data
		return nil
	}
	if c.CloudConfig.File != "" {
		if profile.Config == nil {
			return nil, finding.Usagef("read cloud config: provider %s reads no configuration file, so %s would have no effect", profile.Name, c.CloudConfig.File).
				WithHint("`ccmadm provider show %s` lists what it wants", profile.Name)
		}
		if err := read(profile.Config.File, c.CloudConfig.File); err != nil {
			return nil, err
		}
	}
	for _, cred := range c.Credentials {
		if cred.File != "" {
			if err := read(cred.Key, cred.File); err != nil {
				return nil, err
			}
			continue
		}
		value := env(cred.Env)
		if value == "" {
			return nil, finding.Usagef("read credential %q: environment variable %s is empty or not set", cred.Key, cred.Env)
		}
		files[cred.Key] = []byte(value)
	}
	return files, nil
}

// FetchCloudFiles brings the provider's files to a further control plane. Another provider's are none.
func FetchCloudFiles(ctx context.Context, env *workflow.Env, s *settings.Settings) (map[string][]byte, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, v1alpha1.CloudConfigName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && OfAnother(secret, s.Provider) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch Secret/kube-system/%s: %w", v1alpha1.CloudConfigName, err)
	}
	if len(secret.Data) == 0 {
		return nil, errors.New("fetch Secret/kube-system/" + v1alpha1.CloudConfigName + ": it has no keys")
	}
	return secret.Data, nil
}
