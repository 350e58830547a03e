package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// kubeletHealth is where the kubelet of this machine tells that it is well, host:port; empty where it does not.
func kubeletHealth(m *machine.Machine) (string, error) {
	data, err := m.Read(machine.KubeletConfig)
	if err != nil {
		return "", fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	var config struct {
		Address string `json:"healthzBindAddress"`
		Port    *int   `json:"healthzPort"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("read %s: %w", machine.KubeletConfig, err)
	}
	port := ptr.Deref(config.Port, 10248)
	if port == 0 {
		return "", nil
	}
	if config.Address == "" {
		config.Address = "127.0.0.1"
	}
	return net.JoinHostPort(config.Address, strconv.Itoa(port)), nil
}

// restartKubelet starts it again and waits until it runs as wanted, by another process than before, and is well.
func restartKubelet(ctx context.Context, env *workflow.Env, timeout time.Duration, wanted func(*machine.Kubelet) error) error {
	before, err := env.Machine.RunningKubelet(ctx)
	if err != nil {
		return err
	}
	health, err := kubeletHealth(env.Machine)
	if err != nil {
		return err
	}
	if err := env.Machine.DaemonReload(ctx); err != nil {
		return err
	}
	if err := env.Machine.Systemctl(ctx, "restart", "kubelet"); err != nil {
		return err
	}
	if env.DryRun {
		return nil
	}
	var last error
	waiting := env.Waiting("the kubelet", timeout)
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		if last = isBack(ctx, env.Machine, before, health, wanted); last != nil {
			waiting.Still(last)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for the kubelet: %w", timeout, errors.Join(last, ctx.Err()))
	}
	return nil
}

func isBack(
	ctx context.Context, m *machine.Machine, before *machine.Kubelet, health string, wanted func(*machine.Kubelet) error,
) error {
	now, err := m.RunningKubelet(ctx)
	switch {
	case err != nil:
		return err
	case now == nil:
		return errors.New("it does not run")
	case before != nil && now.PID == before.PID:
		return errors.New("it has not been started again")
	}
	if err := wanted(now); err != nil || health == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultTransport.RoundTrip(request) // no proxy of an environment stands between
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("its /healthz says %s", answer.Status)
	}
	return nil
}

// RefuseTwice finds a flag that stands in more than one place, and one that means another cloud mode: whoever set it in
// two places has to say which one holds.
func RefuseTwice(uses []machine.FlagUse) error {
	var wrong []error
	for i, u := range uses {
		for _, other := range uses[i+1:] {
			if other.Flag == u.Flag {
				wrong = append(wrong, SetTwice(u.Flag, u.String(), other.String()))
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return finding.Refusedf("change the kubelet's flags: %w", errors.Join(wrong...)).
		WithHint("remove one of the two; nothing was changed")
}

// SetTwice is the error of a flag that two files set.
func SetTwice(flag string, places ...string) error {
	return fmt.Errorf("--%s is set in two places: %s", flag, strings.Join(places, " and "))
}
