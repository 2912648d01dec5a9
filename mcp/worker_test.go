//go:build unix

package mcp

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
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
	for _, tool := range []string{"pid", "grandchild:session"} {
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
	for range 2 {
		require.True(t, lines.Scan())
		_, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		require.NoError(t, err, lines.Text())
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	// That server and child are gone is checked by hostileServer.
}
