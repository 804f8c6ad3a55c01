// testssl.sh and sslscan, which look for weak TLS.

import { readFileSync } from 'node:fs'
import path from 'node:path'

import { certify } from '../../interop/lib/certificate.mjs'
import { startWatchfire } from '../../interop/lib/server.mjs'
import { debianVersion, needs, run, runOrFail } from '../lib/tools.mjs'

const TESTSSL_MS = 6 * 60_000
const SSLSCAN_MS = 2 * 60_000

export const suite = {
  title: 'TLS',
  about:
    'testssl.sh and sslscan connect to a server with a certificate of its own. A case is a finding: a protocol, a cipher, a known ' +
    'vulnerability or a property of the certificate. Checks of the certificate that need a public name are not run.',
  parts: [
    { judged: 'testssl.sh', run: judgeWithTestssl, isInSlice: false },
    { judged: 'sslscan', run: judgeWithSslscan },
  ],
}

async function withServer(scratch, judge) {
  const { cert, key } = certify(scratch, ['localhost'])
  const server = await startWatchfire({ settings: { 'tls.cert': cert, 'tls.key': key } })
  try {
    return await judge(`127.0.0.1:${server.port}`)
  } finally {
    await server.stop()
  }
}

/** Findings of these severities are passed. */
const GOOD = ['OK', 'INFO']

function judgeWithTestssl({ scratch }) {
  const testssl = needs('testssl', 'testssl.sh')
  return withServer(scratch, async (address) => {
    const file = path.join(scratch, 'findings.json')
    const checks = ['--protocols', '--std', '--fs', '--vulnerable']
    await run(testssl, ['--quiet', '--warnings', 'off', '--color', '0', '--sneaky', '--jsonfile', file, ...checks, address], {
      ms: TESTSSL_MS,
      cwd: scratch,
    })
    const findings = JSON.parse(readFileSync(file, 'utf8')).filter(({ severity }) => severity !== 'DEBUG')
    const cases = findings.map(({ id, severity, finding }) => ({
      name: id,
      isPassed: GOOD.includes(severity),
      found: `${severity}: ${finding}`,
    }))
    return { version: debianVersion('testssl.sh'), cases }
  })
}

function judgeWithSslscan({ scratch }) {
  const sslscan = needs('sslscan')
  return withServer(scratch, async (address) => {
    const xml = await runOrFail(sslscan, ['--no-colour', '--xml=-', address], { ms: SSLSCAN_MS })
    return { version: debianVersion('sslscan'), cases: [...protocols(xml), ...ciphers(xml), ...flaws(xml)] }
  })
}

const attribute = (attributes, name) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1]
const elements = (xml, name) => [...xml.matchAll(new RegExp(`<${name}\\b([^>]*)>`, 'g'))].map(([, attributes]) => attributes)

/** The protocols that a server of today has. */
const PROTOCOLS = ['tls 1.2', 'tls 1.3']

function protocols(xml) {
  return elements(xml, 'protocol').map((attributes) => {
    const name = `${attribute(attributes, 'type')} ${attribute(attributes, 'version')}`
    const isOn = attribute(attributes, 'enabled') === '1'
    return { name, isPassed: isOn === PROTOCOLS.includes(name), found: isOn ? 'on' : 'off' }
  })
}

const STRENGTHS = ['strong', 'acceptable']

function ciphers(xml) {
  return elements(xml, 'cipher').map((attributes) => {
    const strength = attribute(attributes, 'strength')
    return {
      name: `${attribute(attributes, 'sslversion')} ${attribute(attributes, 'cipher')}`,
      isPassed: STRENGTHS.includes(strength),
      found: strength,
    }
  })
}

function flaws(xml) {
  const compression = elements(xml, 'compression').map((attributes) => ({
    name: 'compression',
    isPassed: attribute(attributes, 'supported') === '0',
  }))
  const heartbleed = elements(xml, 'heartbleed').map((attributes) => ({
    name: `heartbleed ${attribute(attributes, 'sslversion')}`,
    isPassed: attribute(attributes, 'vulnerable') === '0',
  }))
  const renegotiation = elements(xml, 'renegotiation').map((attributes) => ({
    name: 'renegotiation',
    isPassed: attribute(attributes, 'supported') === '0' || attribute(attributes, 'secure') === '1',
  }))
  const fallback = elements(xml, 'fallback').map((attributes) => ({
    name: 'fallback',
    isPassed: attribute(attributes, 'supported') === '1',
  }))
  return [...compression, ...heartbleed, ...renegotiation, ...fallback]
}
