/** The form of a name in which equal names are equal: systems write an accent with its letter, or after it. */
export function sameness(name: string): string {
  return name.normalize('NFC')
}

/** The same for names that differ in case only, as case-insensitive file systems and people who search compare them. */
export function caseless(name: string): string {
  return sameness(name).toLowerCase()
}
