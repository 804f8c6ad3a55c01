/** What we use of an `RTCPeerConnection`; tests have pretend ones. */
export interface Line {
  readonly signalingState: RTCSignalingState
  readonly connectionState: RTCPeerConnectionState
  readonly localDescription: { readonly sdp: string } | null
  createDataChannel(label: string, options: { negotiated: true; id: number }): DataChannel
  /** An offer, or the answer to the offer that was set. */
  setLocalDescription(): Promise<void>
  /** Rolls an offer of our own back when it is in the way. */
  setRemoteDescription(description: { type: 'offer' | 'answer'; sdp: string }): Promise<void>
  addIceCandidate(candidate: RTCIceCandidateInit): Promise<void>
  restartIce(): void
  addEventListener(event: string, listener: (event: Event) => void): void
  close(): void
}

/** What we use of an `RTCDataChannel`. */
export interface DataChannel {
  readonly readyState: RTCDataChannelState
  readonly bufferedAmount: number
  bufferedAmountLowThreshold: number
  binaryType: BinaryType
  send(data: Uint8Array<ArrayBuffer>): void
  addEventListener(event: string, listener: (event: Event) => void): void
}

export type MakeLine = (configuration: RTCConfiguration) => Line
