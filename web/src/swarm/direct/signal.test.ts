import { describe, expect, it } from 'vitest'
import { decodeSignal, encodeSignal, SIGNAL_BYTES_MAX, type Signal } from './signal.ts'

const sdp = 'v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n'
const candidate = 'candidate:842163049 1 udp 1677729535 192.0.2.9 51234 typ srflx raddr 0.0.0.0 rport 0'
const read = (told: unknown) => decodeSignal(new TextEncoder().encode(JSON.stringify(told)))

describe('a signal', () => {
  it.each<Signal>([
    { kind: 'offer', call: 0, sdp },
    { kind: 'answer', call: 2 ** 32 - 1, sdp },
    { kind: 'candidates', call: 7, candidates: [{ candidate, sdpMid: '0', sdpMLineIndex: 0 }] },
    { kind: 'candidates', call: 7, candidates: [{ candidate, sdpMid: null, sdpMLineIndex: 0 }] },
    { kind: 'hang_up', call: 7, reason: 'busy' },
  ])('$kind is read as it was written', (signal) => {
    expect(decodeSignal(encodeSignal(signal))).toEqual(signal)
  })

  it.each<[string, unknown]>([
    ['nothing', null],
    ['a list', []],
    ['no call', { kind: 'offer', sdp }],
    ['a call that is no number', { kind: 'offer', call: '1', sdp }],
    ['a call below the first', { kind: 'offer', call: -1, sdp }],
    ['half a call', { kind: 'offer', call: 0.5, sdp }],
    ['an unknown kind', { kind: 'shout', call: 1, sdp }],
    ['no description', { kind: 'offer', call: 1 }],
    ['a description that is none', { kind: 'answer', call: 1, sdp: 'hello' }],
    ['a description without end', { kind: 'offer', call: 1, sdp: sdp + 'a=x\r\n'.repeat(2000) }],
    ['a call for sound', { kind: 'offer', call: 1, sdp: sdp.replace('application', 'audio') }],
    ['a call for data and pictures', { kind: 'offer', call: 1, sdp: `${sdp}m=video 9 UDP/TLS/RTP/SAVPF 96\r\n` }],
    ['a call for nothing', { kind: 'offer', call: 1, sdp: 'v=0\r\n' }],
    ['no candidates', { kind: 'candidates', call: 1, candidates: [] }],
    ['candidates that are none', { kind: 'candidates', call: 1, candidates: { length: 1 } }],
    ['a candidate that is none', { kind: 'candidates', call: 1, candidates: [{ candidate: 'me', sdpMid: '0' }] }],
    ['a candidate of no section', { kind: 'candidates', call: 1, candidates: [{ candidate }] }],
    ['a candidate that goes on', { kind: 'candidates', call: 1, candidates: [{ candidate: candidate + ' '.repeat(600), sdpMid: '0' }] }],
    ['candidates without end', { kind: 'candidates', call: 1, candidates: Array(17).fill({ candidate, sdpMid: '0' }) }],
    ['an end for a reason of its own', { kind: 'hang_up', call: 1, reason: 'because' }],
  ])('that is %s is none', (_what, told) => {
    expect(read(told)).toBeNull()
  })

  it('is bounded, JSON, and UTF-8', () => {
    expect(decodeSignal(new Uint8Array(SIGNAL_BYTES_MAX + 1))).toBeNull()
    expect(decodeSignal(Uint8Array.of(0x7b))).toBeNull()
    expect(decodeSignal(Uint8Array.of(0x22, 0xff, 0x22))).toBeNull()
  })
})
