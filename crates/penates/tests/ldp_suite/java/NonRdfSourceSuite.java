import java.io.IOException;
import org.testng.annotations.BeforeTest;
import org.testng.annotations.Optional;
import org.testng.annotations.Parameters;
import org.w3.ldp.testsuite.test.NonRDFSourceTest;

/**
 * The suite's tests of Non-RDF Sources. In version 0.1.1 TestNG does not call the set-up of that class, which overloads its parent's,
 * so that none of them runs: here it is called.
 */
public class NonRdfSourceSuite extends NonRDFSourceTest {
    @Parameters("auth")
    public NonRdfSourceSuite(@Optional String auth) throws IOException {
        super(auth);
    }

    @Parameters("basicContainer")
    @BeforeTest(alwaysRun = true)
    public void createSource(String basicContainer) {
        setup(basicContainer, null, null);
    }
}
