/** The form of a name in which equal names are equal: systems write an accent with its letter, or after it. */
export function sameness(name: string): string {
  return name.normalize('NFC')
}
