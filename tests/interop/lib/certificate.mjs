// A certificate for names of one's own, that only those trust who are told to.

import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** Writes one for all of these names, and its key, into a folder; answers where they are. */
export function certify(folder, names) {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name))
  const alternatives = names.map((name) => `DNS:${name}`).join(',')
  execFileSync('openssl', [
    'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', `/CN=${names[0]}`,
    '-addext', `subjectAltName=${alternatives}`, '-addext', 'basicConstraints=critical,CA:FALSE', '-keyout', key, '-out', cert,
  ], { stdio: 'ignore' })
  return { cert, key }
}
