// A real ACME server: Pebble of Let's Encrypt, built once from the Go modules in pebble/go.mod, with a DNS
// server that answers 127.0.0.1 for every name.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import https from 'node:https'
import path from 'node:path'

import { certify } from './certificate.mjs'
import { newFolder } from './folders.mjs'
import { GoPrograms } from './go-programs.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { Program } from './program.mjs'

const programs = new GoPrograms({
  folder: 'pebble',
  module: 'github.com/letsencrypt/pebble/v2',
  packages: { pebble: 'cmd/pebble', 'pebble-challtestsrv': 'cmd/pebble-challtestsrv' },
  keptIn: 'pebble',
})

/** The reason why Pebble cannot run here; false when it can. On the CI machine it must run. */
export const whyNoPebble = programs.whyMissing

/** Builds the programs unless they exist: takes some seconds and some megabytes of modules. */
export const buildPebble = () => programs.build()

/** A running Pebble with its DNS server. */
export class Pebble {
  #acme
  caFile
  #dns
  #ports
  #folder = newFolder()
  #options

  /**
   * It validates domains at the ports `tls` and `http` of 127.0.0.1. Certificates are valid for `seconds`. With
   * `isStopped` it can be started later, at the same address.
   */
  static async create({ tls, http, seconds = 3600, isStopped = false }) {
    await buildPebble()
    const pebble = new Pebble()
    const [acme, management, dns, dnsManagement] = await listeningPorts(4)
    pebble.#ports = { acme, management, dns, dnsManagement }
    pebble.#options = { tls, http, seconds }
    const names = certify(pebble.#folder, ['localhost'])
    pebble.caFile = names.cert
    try {
      await pebble.#startDns()
      if (!isStopped) await pebble.start()
    } catch (error) {
      await pebble.stop()
      throw error
    }
    return pebble
  }

  async #startDns() {
    const { dns, dnsManagement } = this.#ports
    const off = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', '']
    const where = ['-dnsserver', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${dnsManagement}`]
    this.#dns = new Program(programs.path('pebble-challtestsrv'), [...off, ...where, '-defaultIPv4', '127.0.0.1', '-defaultIPv6', ''])
    await this.#dns.until(
      () =>
        this.resolveTo('ready.example', '127.0.0.1').then(
          () => true,
          () => false,
        ),
      'the DNS server is ready',
    )
  }

  /** Sets the address of a name. */
  async resolveTo(host, address) {
    for (const [call, body] of Object.entries({ 'clear-a': {}, 'add-a': { addresses: [address] } })) {
      const url = `http://127.0.0.1:${this.#ports.dnsManagement}/${call}`
      const response = await fetch(url, { method: 'POST', body: JSON.stringify({ host: `${host}.`, ...body }) })
      assert.equal(response.status, 200)
    }
  }

  async start() {
    const { acme, management, dns } = this.#ports
    const { tls, http, seconds } = this.#options
    const file = path.join(this.#folder, 'config.json')
    const pebble = {
      listenAddress: `127.0.0.1:${acme}`,
      managementListenAddress: `127.0.0.1:${management}`,
      certificate: this.caFile,
      privateKey: path.join(this.#folder, 'key.pem'),
      httpPort: http,
      tlsPort: tls,
      keyAlgorithm: 'ecdsa',
      retryAfter: { authz: 1, order: 1 },
      profiles: { default: { description: 'for tests', validityPeriod: seconds } },
    }
    writeFileSync(file, JSON.stringify({ pebble }))
    const env = { ...process.env, PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '5' }
    this.#acme = new Program(programs.path('pebble'), ['-config', file, '-strict', '-dnsserver', `127.0.0.1:${dns}`], { env })
    await this.#acme.until(async () => {
      this.root = await this.#get(`https://127.0.0.1:${management}/roots/0`).catch(() => undefined)
      return this.root
    }, 'Pebble is ready')
  }

  /** Stops the ACME server; `start` continues with a new, empty one. */
  async pause() {
    await this.#acme.stop('SIGKILL')
    this.#acme = undefined
  }

  get directory() {
    return `https://localhost:${this.#ports.acme}/dir`
  }

  /** The log of Pebble. */
  get log() {
    return this.#acme.output
  }

  /** Sets the window in which the owner of a certificate should renew it. */
  async suggestRenewal(certificate, start, end) {
    const suggestedWindow = { start: start.toISOString(), end: end.toISOString() }
    const body = JSON.stringify({ Certificate: certificate, ARIResponse: JSON.stringify({ suggestedWindow }) })
    const { management } = this.#ports
    await new Promise((resolve, reject) => {
      const options = { method: 'POST', rejectUnauthorized: false, headers: { 'User-Agent': 'test' } }
      const request = https.request(`https://127.0.0.1:${management}/set-renewal-info/`, options, (response) => {
        response.resume()
        if (response.statusCode === 200) resolve(null)
        else reject(new Error(`cannot suggest a renewal: ${response.statusCode}`))
      })
      request.on('error', reject).end(body)
    })
  }

  #get(url) {
    return new Promise((resolve, reject) => {
      https
        .get(url, { rejectUnauthorized: false }, (response) => {
          let text = ''
          response
            .setEncoding('utf8')
            .on('data', (part) => (text += part))
            .on('end', () => resolve(text))
        })
        .on('error', reject)
    })
  }

  async stop() {
    await this.#acme?.stop('SIGKILL')
    await this.#dns?.stop('SIGKILL')
  }
}
