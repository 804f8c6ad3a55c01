// Servers of HTTP files: a real nginx, and one whose answers a test decides.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { userInfo } from 'node:os'

import { listeningPorts } from './listening-ports.mjs'
import { accepts, closeServer, listen, portOf } from './listen.mjs'
import { Program } from './program.mjs'

/** An nginx that serves a folder, and counts the bytes that it sends. */
export class Nginx {
  #folder
  #program
  port

  /** Starts nginx; its files are those of `files` in the folder. */
  static async start(folder) {
    const nginx = new Nginx()
    nginx.#folder = folder
    mkdirSync(nginx.files, { recursive: true })
    ;[nginx.port] = await listeningPorts(1)
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`)
    writeFileSync(
      path.join(folder, 'nginx.conf'),
      `daemon off; worker_processes 1; user ${userInfo().username}; pid ${folder}/pid; error_log stderr;
      events { worker_connections 1024; }
      http {
        log_format bytes '$request_method $uri $status $body_bytes_sent'; access_log ${folder}/access.log bytes;
        ${temporary.join(' ')}
        types { application/x-model bin; }
        server { listen 127.0.0.1:${nginx.port}; root ${nginx.files}; }
      }`,
    )
    await nginx.run()
    return nginx
  }

  /** Starts it again after a stop, at the same port. */
  async run() {
    this.#program = new Program('nginx', ['-p', this.#folder, '-e', 'stderr', '-c', path.join(this.#folder, 'nginx.conf')])
    await this.#program.until(() => accepts(this.port), 'nginx listens')
  }

  get files() {
    return path.join(this.#folder, 'files')
  }

  get url() {
    return `http://127.0.0.1:${this.port}`
  }

  /** The requests for a path: method, status and bytes of the body. nginx logs a request when it has ended. */
  requests(target) {
    const lines = readFileSync(path.join(this.#folder, 'access.log'), 'utf8').trim().split('\n')
    const requests = lines.map((line) => line.split(' '))
    const found = requests.filter(([, uri]) => uri === target)
    return found.map(([method, , status, bytes]) => ({ method, status: Number(status), bytes: Number(bytes) }))
  }

  /** The bytes of a path that it has sent. */
  bytesOf(target) {
    return this.requests(target).reduce((sum, { bytes }) => sum + bytes, 0)
  }

  stop() {
    return this.#program.stop()
  }
}

/** A server whose answers are those of `answer(request, response)`. It keeps its requests. */
export class ScriptedServer {
  requests = []
  #server

  static async start(answer) {
    const scripted = new ScriptedServer()
    scripted.#server = http.createServer((request, response) => {
      scripted.requests.push({ method: request.method, url: request.url, headers: request.headers })
      answer(request, response)
    })
    await listen(scripted.#server)
    return scripted
  }

  get url() {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  stop() {
    return closeServer(this.#server)
  }
}

/** Answers with bytes, or with the range that is asked for. */
export function sendBytes(request, response, bytes, headers = {}) {
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '')
  const start = range ? Number(range[1]) : 0
  const end = range?.[2] ? Math.min(Number(range[2]), bytes.length - 1) : bytes.length - 1
  const of = range ? { 'content-range': `bytes ${start}-${end}/${bytes.length}` } : {}
  response.writeHead(range ? 206 : 200, { 'accept-ranges': 'bytes', 'content-length': end - start + 1, ...of, ...headers })
  response.end(request.method === 'HEAD' ? undefined : bytes.subarray(start, end + 1))
}
