// A certificate for the test's own host names, trusted only by programs that are given it.

import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** Writes a certificate for all of these names, and its key, into a folder; returns the paths. */
export function certify(folder, names) {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name))
  const alternatives = names.map((name) => `DNS:${name}`).join(',')
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
      '-subj',
      `/CN=${names[0]}`,
      '-addext',
      `subjectAltName=${alternatives}`,
      '-addext',
      'basicConstraints=critical,CA:FALSE',
      '-keyout',
      key,
      '-out',
      cert,
    ],
    { stdio: 'ignore' },
  )
  return { cert, key }
}
