use super::Account;

/// The page over all stories, from what each wrote last; `heading` says what they are.
pub fn summary(heading: &str, accounts: &[Account]) -> String {
    let mut text = heading.to_owned();
    if let Some(account) = accounts.first() {
        text += &format!("Machine: {}.\n\n", account.machine);
    }
    text += "| story | mark | measured | asked | |\n|---|---|---:|---:|---|\n";
    for account in accounts {
        for (index, mark) in account.marks.iter().enumerate() {
            let story = match index {
                0 => format!("[{}]({1}.md)", account.title, account.story),
                _ => String::new(),
            };
            text += &format!(
                "| {story} | {} | {} | {} | {} |\n",
                mark.what,
                mark.measured(),
                mark.asked(),
                mark.verdict()
            );
        }
    }
    text += "\n| story | date | command | took |\n|---|---|---|---:|\n";
    for account in accounts {
        text += &format!(
            "| {} | {} | `{}` | {} s |\n",
            account.story, account.date, account.command, account.seconds
        );
    }
    text
}
