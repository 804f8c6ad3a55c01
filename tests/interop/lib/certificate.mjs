// A certificate for the test's own host names, trusted only by programs that are given it.

import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** Writes a certificate for all of these names, and its key, into a folder; returns the paths. */
export function certify(folder, hosts) {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name))
  const alternatives = hosts.map((name) => `DNS:${name}`).join(',')
  const options = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -addext basicConstraints=critical,CA:FALSE'
  const subject = ['-subj', `/CN=${hosts[0]}`, '-addext', `subjectAltName=${alternatives}`]
  execFileSync('openssl', ['req', ...options.split(' '), ...subject, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  return { cert, key }
}
