import { describe, expect, it } from 'vitest'
import { decodeSignal, encodeSignal, SIGNAL_BYTES_MAX, type Signal } from './signal.ts'

const sdp = 'v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n'
const candidate = 'candidate:842163049 1 udp 1677729535 192.0.2.9 51234 typ srflx raddr 0.0.0.0 rport 0'
const read = (value: unknown) => decodeSignal(new TextEncoder().encode(JSON.stringify(value)))

describe('a signal', () => {
  it.each<Signal>([
    { kind: 'offer', call: 0, sdp },
    { kind: 'answer', call: 2 ** 32 - 1, sdp },
    { kind: 'candidates', call: 7, candidates: [{ candidate, sdpMid: '0', sdpMLineIndex: 0 }] },
    { kind: 'candidates', call: 7, candidates: [{ candidate, sdpMid: null, sdpMLineIndex: 0 }] },
    { kind: 'hang_up', call: 7, reason: 'busy' },
  ])('$kind decodes to what was encoded', (signal) => {
    expect(decodeSignal(encodeSignal(signal))).toEqual(signal)
  })

  it.each<[string, unknown]>([
    ['nothing', null],
    ['a list', []],
    ['no call', { kind: 'offer', sdp }],
    ['a call that is not a number', { kind: 'offer', call: '1', sdp }],
    ['a call below the first', { kind: 'offer', call: -1, sdp }],
    ['a fractional call', { kind: 'offer', call: 0.5, sdp }],
    ['an unknown kind', { kind: 'shout', call: 1, sdp }],
    ['no description', { kind: 'offer', call: 1 }],
    ['an invalid description', { kind: 'answer', call: 1, sdp: 'hello' }],
    ['a description that is too long', { kind: 'offer', call: 1, sdp: sdp + 'a=x\r\n'.repeat(2000) }],
    ['a call with audio', { kind: 'offer', call: 1, sdp: sdp.replace('application', 'audio') }],
    ['a call with data and video', { kind: 'offer', call: 1, sdp: `${sdp}m=video 9 UDP/TLS/RTP/SAVPF 96\r\n` }],
    ['a call without media', { kind: 'offer', call: 1, sdp: 'v=0\r\n' }],
    ['no candidates', { kind: 'candidates', call: 1, candidates: [] }],
    ['candidates that are not a list', { kind: 'candidates', call: 1, candidates: { length: 1 } }],
    ['an invalid candidate', { kind: 'candidates', call: 1, candidates: [{ candidate: 'me', sdpMid: '0' }] }],
    ['a candidate without a section', { kind: 'candidates', call: 1, candidates: [{ candidate }] }],
    [
      'a candidate that is too long',
      { kind: 'candidates', call: 1, candidates: [{ candidate: candidate + ' '.repeat(600), sdpMid: '0' }] },
    ],
    ['too many candidates', { kind: 'candidates', call: 1, candidates: Array(17).fill({ candidate, sdpMid: '0' }) }],
    ['a hang-up for an unknown reason', { kind: 'hang_up', call: 1, reason: 'because' }],
  ])('is not valid if it is %s', (_what, value) => {
    expect(read(value)).toBeNull()
  })

  it('must be short, JSON and UTF-8', () => {
    expect(decodeSignal(new Uint8Array(SIGNAL_BYTES_MAX + 1))).toBeNull()
    expect(decodeSignal(Uint8Array.of(0x7b))).toBeNull()
    expect(decodeSignal(Uint8Array.of(0x22, 0xff, 0x22))).toBeNull()
  })
})
