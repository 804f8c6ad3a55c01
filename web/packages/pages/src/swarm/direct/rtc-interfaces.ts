/** The part of `RTCPeerConnection` that is used. Tests have fakes. */
export interface RtcConnection {
  readonly signalingState: RTCSignalingState
  readonly connectionState: RTCPeerConnectionState
  readonly iceGatheringState: RTCIceGatheringState
  readonly localDescription: { readonly sdp: string } | null
  createDataChannel(label: string, options: { negotiated: true; id: number }): DataChannel
  /** Creates an offer, or the answer to the remote offer. */
  setLocalDescription(): Promise<void>
  /** Rolls back our own offer if necessary. */
  setRemoteDescription(description: { type: 'offer' | 'answer'; sdp: string }): Promise<void>
  addIceCandidate(candidate: RTCIceCandidateInit): Promise<void>
  restartIce(): void
  addEventListener(event: string, listener: (event: Event) => void): void
  close(): void
}

/** The part of `RTCDataChannel` that is used. */
export interface DataChannel {
  readonly readyState: RTCDataChannelState
  readonly bufferedAmount: number
  bufferedAmountLowThreshold: number
  binaryType: BinaryType
  send(data: Uint8Array<ArrayBuffer>): void
  addEventListener(event: string, listener: (event: Event) => void): void
}

export type MakeRtcConnection = (configuration: RTCConfiguration) => RtcConnection
