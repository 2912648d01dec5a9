// Package deploy tests the files of a deployment: docker-compose.yml, Dockerfile and the
// part of docs/operate.md that describes them.
package deploy
