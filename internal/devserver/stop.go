package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Stop ends the server: first politely, then, when the context ends or after
// ten seconds, by killing its process group. It returns when the process is
// gone. It may be called again, and by several goroutines.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		select {
		case <-s.done:
			return
		default:
		}
		s.asked.Store(true)
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		timer := time.NewTimer(stopTimeout)
		defer timer.Stop()
		select {
		case <-s.done:
			return
		case <-ctx.Done():
		case <-timer.C:
		}
		_ = killGroup(s.PID)
	})
	<-s.done
	return nil
}

// Kill ends the server at once, as a crash would, unless it has ended.
func (s *Server) Kill() error {
	select {
	case <-s.done:
		return nil
	default:
	}
	if err := killGroup(s.PID); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the Temporal server: %w", err)
	}
	<-s.done
	return nil
}
