// An application in a container: reads the files of a folder, and then answers every HTTP request. It is linked
// statically because it does not import net, so its image needs no other file.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(port, folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	bytes := 0
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return err
		}
		bytes += len(content)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	listener, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := syscall.Bind(listener, &syscall.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := syscall.Listen(listener, 16); err != nil {
		return err
	}
	body := fmt.Sprintf("read %d bytes\n", bytes)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s", len(body), body)
	for {
		connection, _, err := syscall.Accept(listener)
		if err != nil {
			return err
		}
		request := make([]byte, 4096)
		syscall.Read(connection, request)
		syscall.Write(connection, []byte(answer))
		syscall.Close(connection)
	}
}
