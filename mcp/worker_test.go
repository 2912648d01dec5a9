//go:build unix

package mcp

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// worker is the process that TestKilledWorker kills: it opens a pool, has the
// server start a child of its own, and prints both process ids.
func worker(tag string) {
	p := NewPool(map[string]Server{"h": {
		Command: os.Args[0],
		Env:     map[string]string{hostileVar: "stays", "MCP_TEST_TAG": tag},
	}}, quiet)
	// The call comes from a thread that ends at once. If the server were tied
	// to that thread it would die with it.
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(done)
		if _, err := p.Call(context.Background(), "h", "count", nil); err != nil {
			fmt.Println(err)
		}
	}()
	<-done
	for _, tool := range []string{"count", "pid", "grandchild:session"} {
		r, err := p.Call(context.Background(), "h", tool, nil)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(*r.Text)
	}
	select {}
}

func TestKilledWorker(t *testing.T) {
	tag := hostileServer(t, "").Env["MCP_TEST_TAG"]
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVar+"="+tag)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "2", lines.Text(), "the server died with the thread that asked for it")
	for range 2 {
		require.True(t, lines.Scan())
		_, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		require.NoError(t, err, lines.Text())
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	// That server and child are gone is checked by hostileServer.
}
