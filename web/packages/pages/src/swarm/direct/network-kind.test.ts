import { describe, expect, it } from 'vitest'
import { candidatesOf, haveNoCommonIpVersion, networkKind } from './network-kind.ts'

const host = (address: string, port = 40_000) => `candidate:1 1 udp 2113937151 ${address} ${port} typ host generation 0`
const outer = (port: number, { foundation = '2', raddr = '10.0.1.2', rport = 40_000 } = {}) =>
  `candidate:${foundation} 1 udp 1677729535 198.51.100.7 ${port} typ srflx raddr ${raddr} rport ${rport} generation 0`
const TCP = 'candidate:3 1 tcp 1518280447 10.0.1.2 9 typ host tcptype active'

describe('the kind of a network', () => {
  it('is symmetric if one inner port has two outer ports', () => {
    expect(networkKind([host('10.0.1.2'), outer(61_000), outer(62_000)], false)).toBe('symmetric')
  })

  it('is symmetric if the browser hides the inner port', () => {
    const hidden = { raddr: '0.0.0.0', rport: 0 }
    expect(networkKind([host('a.local'), outer(61_000, hidden), outer(62_000, hidden)], false)).toBe('symmetric')
  })

  it('is unknown if both STUN ports see the same outer port', () => {
    expect(networkKind([host('10.0.1.2'), outer(61_000)], true)).toBe('unknown')
    expect(networkKind([host('10.0.1.2'), outer(61_000), outer(61_000)], true)).toBe('unknown')
  })

  it('is not symmetric because a browser has two devices behind one router', () => {
    const cable = outer(61_000)
    expect(networkKind([cable, outer(62_000, { foundation: '4', raddr: '10.0.1.3' })], true)).toBe('unknown')
    expect(networkKind([cable, outer(62_000, { rport: 40_001 })], true)).toBe('unknown')
  })

  it('lets no UDP through if STUN does not answer, once it had the time', () => {
    for (const inner of ['10.0.1.2', '172.20.0.9', '192.168.1.5', '100.64.0.3', 'fd00::1', '6d3c0a.local']) {
      expect(networkKind([host(inner), TCP], false), inner).toBe('unknown')
      expect(networkKind([host(inner), TCP], true), inner).toBe('no-udp')
    }
  })

  it('is unknown without a router, or without candidates', () => {
    expect(networkKind([host('127.0.0.1')], true)).toBe('unknown')
    expect(networkKind([host('10.0.1.2'), host('198.51.100.7')], true)).toBe('unknown')
    expect(networkKind([TCP], true)).toBe('unknown')
    expect(networkKind(['', 'candidate:', 'candidate:1 1 udp'], true)).toBe('unknown')
  })

  it('has no IP version in common with another one if the public addresses of both sides show it', () => {
    const [v4, v6] = [
      [host('10.0.1.2'), outer(61_000)],
      [host('2001:db8::1'), host('fd00::1')],
    ]
    expect(haveNoCommonIpVersion(v4, v6)).toBe(true)
    expect(haveNoCommonIpVersion(v6, v4)).toBe(true)
    expect(haveNoCommonIpVersion(v4, [...v6, host('198.51.100.9')])).toBe(false)
    expect(haveNoCommonIpVersion([host('10.0.1.2'), host('a.local')], v6), 'no public address').toBe(false)
    expect(haveNoCommonIpVersion([], [])).toBe(false)
  })

  it('is told from candidates in a description too', () => {
    expect(candidatesOf(`v=0\r\na=${outer(61_000)}\r\na=mid:0\r\na=${TCP}\r\n`)).toEqual([outer(61_000), TCP])
  })
})
