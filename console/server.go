package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Bounds of a connection. Requests are small, and responses come at once.
const (
	headTime  = 5 * time.Second
	readTime  = 30 * time.Second
	writeTime = 60 * time.Second
	idleTime  = 2 * time.Minute
	// stopTime is how long responses in progress may take once the server stops.
	stopTime = 3 * time.Second
	maxHead  = 16 << 10
)

// Serve serves requests on a listener until ctx ends, and closes the listener.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headTime, ReadTimeout: readTime, WriteTimeout: writeTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := s.Shutdown(bounded)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	<-done
	if err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}
