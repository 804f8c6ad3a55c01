/** Media types of sounds, by the ends of their names. */
export const SOUNDS: Record<string, string> = {
  aac: 'audio/aac', flac: 'audio/flac', m4a: 'audio/mp4', mp3: 'audio/mpeg',
  oga: 'audio/ogg', ogg: 'audio/ogg', opus: 'audio/ogg', wav: 'audio/wav', weba: 'audio/webm',
}

export const FILMS: Record<string, string> = {
  m4v: 'video/mp4', mkv: 'video/x-matroska', mov: 'video/quicktime', mp4: 'video/mp4',
  ogv: 'video/ogg', webm: 'video/webm',
}

const PLAYED = new Set([...Object.values(SOUNDS), ...Object.values(FILMS)])

/** Whether this is a media type that we give to a player. */
export function isPlayed(mime: string): boolean {
  return PLAYED.has(mime)
}
